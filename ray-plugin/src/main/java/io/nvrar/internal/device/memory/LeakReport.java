package io.nvrar.internal.device.memory;

import io.nvrar.DeviceBuffer;
import java.lang.ref.Cleaner;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Logs that a buffer was dropped without {@code close()}, and with {@code -Dnvrar.debug.leaks=true}
 * the stack trace of its allocation. It frees nothing: work on a stream may still use the memory.
 */
public final class LeakReport implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(LeakReport.class);
  private static final String DEBUG_PROPERTY = "nvrar.debug.leaks";
  private static final Cleaner CLEANER = Cleaner.create();

  private final String name;
  private final Lease memory;
  private final @Nullable Throwable creation;

  private LeakReport(String name, Lease memory, @Nullable Throwable creation) {
    this.name = name;
    this.memory = memory;
    this.creation = creation;
  }

  /**
   * Logs a leak if {@code buffer} becomes unreachable while its memory is open.
   *
   * @param name for the log, such as {@code float32[1024]}
   */
  public static void watch(DeviceBuffer buffer, String name, Lease memory) {
    Throwable creation =
        Boolean.getBoolean(DEBUG_PROPERTY) ? new Throwable("allocated here") : null;
    // The report must not reference the buffer, or the buffer would never become unreachable.
    CLEANER.register(buffer, new LeakReport(name, memory, creation));
  }

  @Override
  public void run() {
    if (memory.isClosed()) {
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
