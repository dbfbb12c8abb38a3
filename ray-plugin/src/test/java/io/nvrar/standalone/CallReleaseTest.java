package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.internal.device.host.HostDevice;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Future;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Buffers that were closed during a call are freed at its end, by the call. Whether that succeeds
 * changes nothing of what the call has come to, and the call ends for its group.
 */
class CallReleaseTest {
  private final Members members =
      Members.join("release", 2, Members.config().backend(Backend.CPU).build());
  private final CollectiveGroup group = members.rank(0);
  private final List<Long> freed = Collections.synchronizedList(new ArrayList<>());

  @AfterEach
  void theGroupClosesAtOnce() {
    long start = System.nanoTime();
    members.close();
    assertThat(Duration.ofNanos(System.nanoTime() - start))
        .as("a call that has not ended for the group keeps it for the join timeout")
        .isLessThan(Duration.ofSeconds(4));
  }

  /** Memory whose release fails. */
  private DeviceBuffer faulty(DeviceBuffer memory) {
    return HostDevice.instance()
        .adoptPinned(
            memory.dataType(),
            memory.count(),
            memory.address(),
            address -> {
              freed.add(address);
              throw new IllegalStateException("the driver cannot free the buffer");
            });
  }

  /** Rank 0 makes a call whose buffers are closed while it waits for rank 1; null if it is made. */
  private Throwable outcome(BiConsumer<DeviceBuffer, DeviceBuffer> call, Runnable rankOne)
      throws Exception {
    try (DeviceBuffer first = group.device().allocate(DataType.FLOAT32, 4);
        DeviceBuffer second = group.device().allocate(DataType.FLOAT32, 4)) {
      DeviceBuffer send = faulty(first);
      DeviceBuffer recv = faulty(second);
      Future<Throwable> running =
          members.start(
              () -> {
                try {
                  call.accept(send, recv);
                  return null;
                } catch (RuntimeException e) {
                  return e;
                }
              });
      Thread.sleep(200);
      send.close();
      recv.close();
      rankOne.run();
      Throwable thrown = running.get();
      assertThat(freed).containsExactlyInAnyOrder(first.address(), second.address());
      return thrown;
    }
  }

  @Test
  void aCallThatCannotFreeWhatItUsedIsMadeAllTheSame() throws Exception {
    assertThat(
            outcome(
                (send, recv) -> group.allReduce(send, recv, ReduceOp.SUM, group.stream()),
                this::sumOfRankOne))
        .isNull();
    members.onAll(CollectiveGroup::barrier);
  }

  @Test
  void aCallThatFailsThrowsItsOwnFailure() throws Exception {
    assertThat(
            outcome(
                (send, recv) -> group.allReduce(send, recv, ReduceOp.SUM, group.stream()),
                () -> members.rank(1).abort("enough")))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageContaining("enough");
  }

  @Test
  void theSameHoldsForABatch() throws Exception {
    assertThat(
            outcome(
                (send, recv) ->
                    group.batch(
                        () -> {
                          group.send(send, 1);
                          group.recv(recv, 1);
                        }),
                () -> members.rank(1).abort("enough")))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageContaining("enough");
  }

  private void sumOfRankOne() {
    try (DeviceBuffer buffer = members.rank(1).device().allocate(DataType.FLOAT32, 4)) {
      members.rank(1).allReduce(buffer);
    }
  }
}
