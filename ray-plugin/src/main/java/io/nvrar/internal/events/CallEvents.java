package io.nvrar.internal.events;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.DataType;
import java.util.function.IntSupplier;
import org.jspecify.annotations.Nullable;

/** Records the calls of one member while somebody asks for that. Allocates nothing otherwise. */
public final class CallEvents {
  /** A runtime image made by jlink may lack the flight recorder. */
  static final boolean AVAILABLE = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

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
      DataType type = CallNames.type(dataType);
      CallEvent event = (CallEvent) begun;
      event.end();
      if (event.shouldCommit()) {
        commit(
            event,
            CallNames.of(collective, dataType, lastAlgorithm.getAsInt()),
            type == null ? 0 : type.sizeBytes() * count);
      }
    }
  }

  /** Ends a batch of transfers. */
  public void endBatch(@Nullable Object begun, long bytes) {
    if (begun != null) {
      CallEvent event = (CallEvent) begun;
      event.end();
      if (event.shouldCommit()) {
        commit(event, CallNames.BATCH, bytes);
      }
    }
  }

  private void commit(CallEvent event, String call, long bytes) {
    event.group = group;
    event.rank = rank;
    event.call = call;
    event.bytes = bytes;
    event.commit();
  }
}
