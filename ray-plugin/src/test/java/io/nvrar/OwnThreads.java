package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

/** The library's own threads in this process. */
public final class OwnThreads {
  private OwnThreads() {}

  public static void assertNone() {
    assertThat(Thread.getAllStackTraces().keySet())
        .extracting(Thread::getName)
        .noneMatch(name -> name.startsWith("nvrar-"));
  }
}
