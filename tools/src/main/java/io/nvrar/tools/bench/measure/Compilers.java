package io.nvrar.tools.bench.measure;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The JVM's, which work in threads of their own on the cores of the ranks. */
final class Compilers {
  /** Calls until they are done with the call path; before, it is not what a decode loop sees. */
  static final int CALLS = 30_000;

  private static final int LOOKS = 20;
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(300);

  private Compilers() {}

  /** Waits until they rest, for some seconds at most. */
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
