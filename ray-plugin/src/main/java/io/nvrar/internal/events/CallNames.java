package io.nvrar.internal.events;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.DataType;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The text that says what a call was, such as {@code allReduce float32 one-shot}. It is one text,
 * and always the same object, because the flight recorder copies texts of up to 16 characters into
 * each event letter by letter, some 20 ns each, and notes longer ones once.
 */
final class CallNames {
  static final String BATCH = "batch";

  private static final @Nullable DataType[] TYPES = byCode();
  private static final Algorithm[] ALGORITHMS = Algorithm.values();

  /** By the collective's code, by the type's code + 1, by the algorithm's code. */
  private static final String[][][] NAMES = names();

  private CallNames() {}

  /** The type of this code; null for -1, which stands for no type. */
  static @Nullable DataType type(int code) {
    return TYPES[code + 1];
  }

  /**
   * Names a call.
   *
   * @param dataType the {@link DataType#code}; -1 if it has none
   * @param algorithm the {@link Algorithm#code}; that of AUTO if there was no choice. It comes from
   *     memory that other members may write, so any other number counts as none.
   */
  static String of(Collective collective, int dataType, int algorithm) {
    String[] names = NAMES[collective.code()][dataType + 1];
    boolean isKnown = algorithm >= 0 && algorithm < names.length;
    return names[isKnown ? algorithm : Algorithm.AUTO.code()];
  }

  private static String[][][] names() {
    Collective[] all = Collective.values();
    int most = Stream.of(all).mapToInt(Collective::code).max().orElseThrow();
    String[][][] names = new String[most + 1][][];
    for (Collective one : all) {
      names[one.code()] = of(one);
    }
    return names;
  }

  private static String[][] of(Collective collective) {
    return Stream.of(TYPES)
        .map(
            type ->
                Stream.of(ALGORITHMS)
                    .map(algorithm -> of(collective, type, algorithm))
                    .toArray(String[]::new))
        .toArray(String[][]::new);
  }

  private static String of(Collective collective, @Nullable DataType type, Algorithm algorithm) {
    return Stream.of(
            collective.method(),
            type == null ? "" : word(type),
            algorithm == Algorithm.AUTO ? "" : word(algorithm))
        .filter(word -> !word.isEmpty())
        .collect(Collectors.joining(" "));
  }

  private static @Nullable DataType[] byCode() {
    int most = Stream.of(DataType.values()).mapToInt(DataType::code).max().orElseThrow();
    DataType[] types = new DataType[most + 2];
    for (DataType type : DataType.values()) {
      types[type.code() + 1] = type;
    }
    return types;
  }

  private static String word(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
