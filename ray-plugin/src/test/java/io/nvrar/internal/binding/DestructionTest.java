package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.OwnThreads;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class DestructionTest {
  private static final int INTERNAL = NativeStatus.INTERNAL;
  private static final int SYSTEM = 3;
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  private final List<Thread> tries = Collections.synchronizedList(new ArrayList<>());
  private final Deque<Integer> statuses = new ArrayDeque<>();

  @AfterEach
  void noThreadStays() {
    await().untilAsserted(OwnThreads::assertNone);
  }

  private synchronized int next() {
    tries.add(Thread.currentThread());
    return statuses.size() > 1 ? statuses.remove() : statuses.element();
  }

  private void run(int limit, Integer... answers) {
    statuses.addAll(List.of(answers));
    new Destruction("a test", this::next, limit, PAUSE_NANOS).run();
  }

  @Test
  void whatIsFreedIsNotTriedAgain() {
    NativeLibraries.ensureAvailable();
    run(5, NativeStatus.OK);
    assertThat(tries).containsExactly(Thread.currentThread());
  }

  @Test
  void whatCouldNotEndIsTriedAgainElsewhereUntilItIsFreed() {
    NativeLibraries.ensureAvailable();
    run(5, INTERNAL, INTERNAL, INTERNAL, NativeStatus.OK);
    await().until(() -> tries.size() == 4);
    noThreadStays();
    assertThat(tries).hasSize(4).first().isSameAs(Thread.currentThread());
    assertThat(tries.get(1)).isSameAs(tries.get(3)).isNotSameAs(tries.get(0));
    assertThat(tries.get(1).isDaemon()).isTrue();
  }

  @Test
  void itIsGivenUpSomeTime() {
    NativeLibraries.ensureAvailable();
    run(5, INTERNAL);
    await().until(() -> tries.size() == 5);
    noThreadStays();
    assertThat(tries).hasSize(5);
  }

  @Test
  void whatIsRefusedForGoodIsNotTriedAgain() {
    NativeLibraries.ensureAvailable();
    run(5, SYSTEM);
    noThreadStays();
    assertThat(tries).hasSize(1);
  }
}
