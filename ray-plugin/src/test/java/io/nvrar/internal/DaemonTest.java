package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class DaemonTest {
  @Test
  void workThatThrowsAnErrorIsRepeatedUntilItIsDone() {
    AtomicInteger tries = new AtomicInteger();
    Thread.currentThread().interrupt(); // which must not cut the pauses short
    Daemon.untilDone(
        () -> {
          if (tries.incrementAndGet() < 4) {
            throw new StackOverflowError("try " + tries);
          }
        });
    assertThat(tries).hasValue(4);
    assertThat(Thread.interrupted()).isFalse();
  }

  @Test
  void anErrorReachesNoHandlerOfTheApplication() throws InterruptedException {
    AtomicInteger handled = new AtomicInteger();
    Thread thread =
        Daemon.of(
            "nvrar-test",
            () -> {
              throw new InternalError("of the JVM");
            });
    thread.setUncaughtExceptionHandler((t, e) -> handled.incrementAndGet());
    thread.start();
    thread.join(10_000);
    assertThat(thread.isAlive()).isFalse();
    assertThat(thread.isDaemon()).isTrue();
    assertThat(handled).hasValue(0);
  }
}
