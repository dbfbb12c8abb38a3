package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class HastyCloseTest {
  /** Otherwise the peers would wait for it until their limits. */
  @Test
  void aMemberThatWaitsForNobodyStillAnnouncesThatItCloses() throws Exception {
    for (int round = 0; round < 20; round++) {
      try (Members members = Members.join("hasty", 2, Members.config().build())) {
        members.onAll(Members::barrier);
        Future<Object> call =
            members.start(
                () -> {
                  try (DeviceBuffer buffer =
                      members.rank(0).device().allocate(DataType.FLOAT32, 4)) {
                    members.rank(0).allReduce(buffer);
                    Members.complete(members.rank(0));
                  }
                  return "done";
                });
        ((MemberGroup) members.rank(1)).close(0);
        assertThat(Members.failureOf(call)).hasMessageContaining("rank 1 closed the group");
      }
    }
  }

  /** If they counted as running, a close would hardly ever find that no call is. */
  @Test
  void callsThatAreRefusedDoNotKeepACloseFromItsAnnouncement() throws Exception {
    int threads = 16;
    CountDownLatch calling = new CountDownLatch(threads);
    AtomicBoolean isOver = new AtomicBoolean();
    Members members = Members.join("stubborn", 2, Members.config().build());
    CollectiveGroup group = members.rank(0);
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 4)) {
      List<Future<Object>> callers = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        callers.add(
            members.start(
                () -> {
                  while (!isOver.get()) {
                    assertThatThrownBy(() -> group.reduce(buffer, 99))
                        .isInstanceOfAny(
                            IllegalArgumentException.class, IllegalStateException.class);
                    calling.countDown();
                  }
                  return "done";
                }));
      }
      calling.await();
      long closing = System.nanoTime();
      Future<Object> other =
          members.start(
              () -> {
                members.rank(1).close();
                return "closed";
              });
      group.close();
      other.get();
      assertThat(Duration.ofNanos(System.nanoTime() - closing)).isLessThan(Duration.ofSeconds(3));
      assertThat(members.rank(1).failure()).isNull();
      isOver.set(true);
      for (Future<Object> caller : callers) {
        assertThat(caller.get()).isEqualTo("done");
      }
    } finally {
      isOver.set(true);
      members.close();
    }
  }
}
