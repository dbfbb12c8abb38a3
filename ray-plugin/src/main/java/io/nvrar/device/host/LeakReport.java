package io.nvrar.device.host;

import java.lang.ref.Cleaner;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says in the log that a buffer was dropped without {@code close()}, with the stack that allocated
 * it under {@code -Dnvrar.debug.leaks=true}. It frees nothing: work on a stream may still use the
 * memory.
 */
final class LeakReport implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(LeakReport.class);
  private static final String DEBUG_PROPERTY = "nvrar.debug.leaks";
  private static final Cleaner CLEANER = Cleaner.create();

  private final String name;
  private final HostAllocation allocation;
  private final @Nullable Throwable creation;

  private LeakReport(String name, HostAllocation allocation, @Nullable Throwable creation) {
    this.name = name;
    this.allocation = allocation;
    this.creation = creation;
  }

  /** Reports when {@code buffer} is unreachable and its allocation still open. */
  static void watch(HostBuffer buffer, String name, HostAllocation allocation) {
    Throwable creation =
        Boolean.getBoolean(DEBUG_PROPERTY) ? new Throwable("allocated here") : null;
    // The report may not reach the buffer, or it would never become unreachable.
    CLEANER.register(buffer, new LeakReport(name, allocation, creation));
  }

  @Override
  public void run() {
    if (allocation.isClosed()) {
      return;
    }
    if (creation != null) {
      LOG.warn("Leak: the buffer {} was dropped without close()", name, creation);
    } else {
      LOG.warn(
          "Leak: the buffer {} was dropped without close(); -D{}=true logs where it was allocated",
          name,
          DEBUG_PROPERTY);
    }
  }
}
