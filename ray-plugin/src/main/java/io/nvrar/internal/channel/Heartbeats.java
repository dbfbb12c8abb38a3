package io.nvrar.internal.channel;

import io.nvrar.GroupConfig;
import java.util.concurrent.TimeUnit;

/**
 * How often both ends of a control channel send heartbeats, and after how much silence a peer
 * counts as lost.
 */
public final class Heartbeats {
  /** How the reason of a loss by silence begins. */
  public static final String SILENT = "silent for more than ";

  private final long limitNanos;
  private final long intervalNanos;

  Heartbeats(GroupConfig config) {
    limitNanos = config.heartbeatLimit().toNanos();
    intervalNanos =
        Math.max(
            Math.min(TimeUnit.SECONDS.toNanos(1), limitNanos / 10),
            TimeUnit.MILLISECONDS.toNanos(1));
  }

  long intervalNanos() {
    return intervalNanos;
  }

  /**
   * Whether a turn took so long that this process must have been paused, so that heartbeats may
   * have arrived that are still unread.
   */
  boolean isPause(long turnNanos) {
    return turnNanos > limitNanos / 2;
  }

  boolean isSilent(long lastHeardNanos, long nowNanos) {
    return nowNanos - lastHeardNanos > limitNanos;
  }
}
