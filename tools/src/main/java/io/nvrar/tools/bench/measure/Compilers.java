package io.nvrar.tools.bench.measure;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The JVM's JIT compilers, whose threads compete with the ranks for cores. */
final class Compilers {
  /**
   * The number of calls after which the call path is compiled; earlier calls are slower than those
   * of a decode loop.
   */
  static final int CALLS = 30_000;

  private static final int LOOKS = 20;
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(300);

  private Compilers() {}

  /** Waits until the compilers are idle, for some seconds at most. */
  static void await() {
    CompilationMXBean compilers = ManagementFactory.getCompilationMXBean();
    if (compilers == null || !compilers.isCompilationTimeMonitoringSupported()) {
      return;
    }
    long before = -1;
    for (int look = 0; look < LOOKS && before != compilers.getTotalCompilationTime(); look++) {
      before = compilers.getTotalCompilationTime();
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }
}
