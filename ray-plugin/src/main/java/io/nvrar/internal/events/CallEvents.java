package io.nvrar.internal.events;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.DataType;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.IntSupplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Records the calls of one member while somebody asks for that. Allocates nothing otherwise. */
public final class CallEvents {
  /** A runtime image made by jlink may lack the flight recorder. */
  static final boolean AVAILABLE = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

  private static final String[] ALGORITHMS =
      Stream.of(Algorithm.values())
          .map(one -> one == Algorithm.AUTO ? "" : nameOf(one))
          .toArray(String[]::new);

  private static final DataType[] DATA_TYPES = DataType.values();
  private static final Map<DataType, String> TYPES = new EnumMap<>(DataType.class);

  static {
    for (DataType type : DATA_TYPES) {
      TYPES.put(type, nameOf(type));
    }
  }

  private final String group;
  private final int rank;
  private final IntSupplier lastAlgorithm;

  /**
   * @param lastAlgorithm the {@link Algorithm#code} of the member's last call; only asked for while
   *     the member is inside one
   */
  public CallEvents(String group, int rank, IntSupplier lastAlgorithm) {
    this.group = group;
    this.rank = rank;
    this.lastAlgorithm = lastAlgorithm;
  }

  /** Begins a call; null while nobody records calls. */
  public static @Nullable Object begin() {
    if (!AVAILABLE || !CallEvent.PROBE.isEnabled()) {
      return null;
    }
    CallEvent event = new CallEvent();
    event.begin();
    return event;
  }

  /**
   * Ends a call.
   *
   * @param begun what {@link #begin} returned
   * @param dataType the {@link DataType#code} of its elements; -1 if it has none
   * @param count the number of these elements
   */
  public void end(@Nullable Object begun, Collective collective, int dataType, long count) {
    if (begun != null) {
      DataType type = typeOf(dataType);
      commit(
          (CallEvent) begun,
          collective.method(),
          type,
          type == null ? 0 : type.sizeBytes() * count);
    }
  }

  /** Ends a batch of transfers. */
  public void endBatch(@Nullable Object begun, long bytes) {
    if (begun != null) {
      commit((CallEvent) begun, "batch", null, bytes);
    }
  }

  private void commit(CallEvent event, String collective, @Nullable DataType type, long bytes) {
    event.end();
    if (event.shouldCommit()) {
      event.group = group;
      event.rank = rank;
      event.collective = collective;
      event.dataType = type == null ? "" : TYPES.get(type);
      event.bytes = bytes;
      int algorithm = lastAlgorithm.getAsInt();
      event.algorithm =
          algorithm >= 0 && algorithm < ALGORITHMS.length ? ALGORITHMS[algorithm] : "";
      event.commit();
    }
  }

  private static @Nullable DataType typeOf(int code) {
    for (DataType type : DATA_TYPES) {
      if (type.code() == code) {
        return type;
      }
    }
    return null;
  }

  private static String nameOf(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
