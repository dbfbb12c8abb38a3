package io.nvrar.fuzz;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;

/** What the fuzz targets check of every input. A broken property is an error that ends the run. */
public final class FuzzProperties {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final int MAX_SENTENCE_CHARS = 12_000;

  private FuzzProperties() {}

  /** Something that reads hostile bytes. */
  @FunctionalInterface
  public interface Reading {
    /** Reads them. */
    void run() throws Exception;
  }

  /**
   * Reads, and expects that no more than {@code maxBytes} were allocated for it. What takes more is
   * read once more, because a first time may load classes, which a fuzzer also instruments.
   *
   * @throws AssertionError if they were
   */
  public static void withinMemory(long maxBytes, Reading reading) {
    long bytes = allocatedBy(reading);
    if (bytes > maxBytes) {
      bytes = allocatedBy(reading);
    }
    if (bytes > maxBytes) {
      throw new AssertionError(bytes + " bytes were allocated, at most " + maxBytes + " may be");
    }
  }

  private static long allocatedBy(Reading reading) {
    long before = THREADS.getCurrentThreadAllocatedBytes();
    try {
      reading.run();
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new AssertionError("an exception that nobody expects", e);
    }
    return THREADS.getCurrentThreadAllocatedBytes() - before;
  }

  /** Expects a refusal in one printable line, and returns it. */
  public static String sentence(Throwable refusal) {
    String message = refusal.getMessage();
    if (message == null || message.isBlank()) {
      throw new AssertionError("a refusal without a word", refusal);
    }
    if (message.length() > MAX_SENTENCE_CHARS) {
      throw new AssertionError("a refusal of " + message.length() + " characters", refusal);
    }
    if (message.chars().anyMatch(Character::isISOControl)) {
      throw new AssertionError("a refusal with control characters: " + message, refusal);
    }
    return message;
  }

  /** Expects what must be. */
  public static void holds(boolean property, String otherwise) {
    if (!property) {
      throw new AssertionError(otherwise);
    }
  }
}
