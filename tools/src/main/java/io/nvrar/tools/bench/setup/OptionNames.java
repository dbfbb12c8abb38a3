package io.nvrar.tools.bench.setup;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.DataType;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import io.nvrar.TuningTable;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Converters for option values. The names are those of {@code nvrar_bench}: {@code ONE_SHOT} is
 * one-shot.
 */
public final class OptionNames {
  private OptionNames() {}

  public static String of(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  private static <E> E parse(E[] constants, Function<E, String> name, String text) {
    for (E constant : constants) {
      if (name.apply(constant).equals(text.toLowerCase(Locale.ROOT))) {
        return constant;
      }
    }
    throw new TypeConversionException(
        String.format(
            Locale.ROOT,
            "'%s', must be one of %s",
            text,
            Arrays.stream(constants).map(name).collect(Collectors.joining(", "))));
  }

  /** What a word of --compare stands for: one implementation, or several of one kind. */
  public record Compared(String name, List<Implementation> all) {
    private static final List<Compared> WORDS =
        Stream.concat(
                Stream.of(
                    new Compared("mpi", List.of(Implementation.OPEN_MPI)),
                    new Compared(
                        "torch",
                        List.of(
                            Implementation.TORCH_ONE_SHOT,
                            Implementation.TORCH_TWO_SHOT,
                            Implementation.TORCH_REDUCE_SCATTER,
                            Implementation.TORCH_LOW_CONTENTION))),
                Arrays.stream(Implementation.values())
                    .map(one -> new Compared(one.toString(), List.of(one))))
            .toList();

    @Override
    public String toString() {
      return name;
    }
  }

  /** See {@link Compared}. */
  public static final class Comparisons implements ITypeConverter<Compared> {
    @Override
    public Compared convert(String text) {
      return parse(Compared.WORDS.toArray(Compared[]::new), Compared::name, text);
    }
  }

  /** See {@link Mode}. */
  public static final class Modes implements ITypeConverter<Mode> {
    @Override
    public Mode convert(String text) {
      return parse(Mode.OF_GPUS.toArray(Mode[]::new), OptionNames::of, text);
    }
  }

  /**
   * See {@link MemoryProvider}; except LOCAL, because the benchmark's members are never in one
   * process.
   */
  public static final class Memories implements ITypeConverter<MemoryProvider> {
    @Override
    public MemoryProvider convert(String text) {
      MemoryProvider[] between = {MemoryProvider.AUTO, MemoryProvider.NVSHMEM, MemoryProvider.IPC};
      return parse(between, OptionNames::of, text);
    }
  }

  /** See {@link TimedCollective}. */
  public static final class Collectives implements ITypeConverter<TimedCollective> {
    @Override
    public TimedCollective convert(String text) {
      return parse(TimedCollective.values(), OptionNames::of, text);
    }
  }

  /** See {@link TuningTable.Collective}. */
  public static final class TunedCollectives implements ITypeConverter<TuningTable.Collective> {
    @Override
    public TuningTable.Collective convert(String text) {
      return parse(TuningTable.Collective.values(), OptionNames::of, text);
    }
  }

  /** See {@link DataType}. */
  public static final class Types implements ITypeConverter<DataType> {
    @Override
    public DataType convert(String text) {
      return parse(DataType.values(), OptionNames::of, text);
    }
  }

  /** See {@link ReduceOp}. */
  public static final class Ops implements ITypeConverter<ReduceOp> {
    @Override
    public ReduceOp convert(String text) {
      return parse(ReduceOp.values(), OptionNames::of, text);
    }
  }

  /** See {@link AllReduceFusion.Form}. */
  public static final class Forms implements ITypeConverter<AllReduceFusion.Form> {
    @Override
    public AllReduceFusion.Form convert(String text) {
      return parse(AllReduceFusion.Form.values(), OptionNames::of, text);
    }
  }

  /** See {@link Algorithm}. */
  public static final class Algorithms implements ITypeConverter<Algorithm> {
    @Override
    public Algorithm convert(String text) {
      return parse(Algorithm.values(), OptionNames::of, text);
    }
  }

  /** A number of bytes with an optional K, M or G behind it. */
  public static final class Bytes implements ITypeConverter<Long> {
    private static final long MOST = 1L << 30;

    @Override
    public Long convert(String text) {
      int unit = text.isEmpty() ? -1 : "KMG".indexOf(text.charAt(text.length() - 1));
      String digits = unit < 0 ? text : text.substring(0, text.length() - 1);
      long scale = 1L << (10 * (unit + 1));
      long value = digits.matches("[0-9]{1,10}") ? Long.parseLong(digits) : 0;
      if (value == 0 || value > MOST / scale) {
        throw new TypeConversionException(
            "'" + text + "', must be a number of bytes from 1 to 1G, such as 64, 8K or 4M");
      }
      return value * scale;
    }
  }
}
