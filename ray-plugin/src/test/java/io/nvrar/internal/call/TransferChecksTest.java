package io.nvrar.internal.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.standalone.ForeignDevice;
import io.nvrar.standalone.Members;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/**
 * Every mistake in a send, a recv or a batch is one sentence with both sides, and nothing of it is
 * sent: the peers, who receive nothing, would else find it in the exchange at the end.
 */
@Tag("contract")
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@NullUnmarked
class TransferChecksTest {
  private Members members;
  private CollectiveGroup group;
  private Device device;
  private DeviceBuffer eight;
  private DeviceBuffer four;

  @BeforeAll
  void join() {
    members = Members.join("transfer-checks", 3, Members.config().build());
    group = members.rank(1);
    device = group.device();
    eight = device.allocate(DataType.FLOAT32, 8);
    four = device.allocate(DataType.FLOAT32, 4);
  }

  @AfterAll
  void nothingWasSentByMistake() {
    members.onAll(
        member -> {
          int next = (member.rank() + 1) % 3;
          int previous = (member.rank() + 2) % 3;
          Device own = member.device();
          try (DeviceBuffer send = own.allocate(DataType.INT32, 1);
              DeviceBuffer recv = own.allocate(DataType.INT32, 1)) {
            int[] got = new int[1];
            send.copyFrom(new int[] {100 + member.rank()});
            member.sendReceive(send, next, recv, previous);
            recv.copyTo(got);
            assertThat(got).containsExactly(100 + previous);
            member.sendReceive(send, previous, recv, next);
            recv.copyTo(got);
            assertThat(got).containsExactly(100 + next);
          }
          member.barrier();
        });
    eight.close();
    four.close();
    members.close();
  }

  private static void refused(Runnable call, String sentence) {
    assertThatThrownBy(call::run)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  private static void misused(Runnable call, String sentence) {
    assertThatThrownBy(call::run)
        .isExactlyInstanceOf(IllegalStateException.class)
        .hasMessage(sentence);
  }

  @Test
  void thePeerMustBeARank() {
    refused(() -> group.send(eight, 3), "peer is 3, the group's ranks are 0 to 2");
    refused(() -> group.recv(eight, -1), "peer is -1, the group's ranks are 0 to 2");
    refused(
        () -> group.sendReceive(eight, 3, four, 0),
        "destination is 3, the group's ranks are 0 to 2");
    refused(
        () -> group.sendReceive(eight, 0, four, 3), "source is 3, the group's ranks are 0 to 2");
    refused(
        () -> group.batch(() -> group.send(eight, 3)), "peer is 3, the group's ranks are 0 to 2");
  }

  @Test
  void nullAndWhatIsOfAnotherDeviceAreNamed() {
    DeviceBuffer foreign = new ForeignDevice.ForeignBuffer();
    refused(() -> group.send(null, 0), "buffer is null, a call needs a buffer");
    refused(() -> group.recv(null, 0), "buffer is null, a call needs a buffer");
    refused(() -> group.sendReceive(null, 0, four, 2), "send is null, a call needs a buffer");
    refused(() -> group.sendReceive(eight, 0, null, 2), "recv is null, a call needs a buffer");
    refused(() -> group.send(foreign, 0), "buffer lives on GPU 3, the group computes on " + device);
    refused(() -> group.send(eight, 0, null), "stream is null, the group computes on " + device);
    refused(
        () -> group.batch(null, group.stream()),
        "transfers is null, batch needs a Runnable that calls them");
    refused(() -> group.batch(() -> {}, null), "stream is null, the group computes on " + device);
    refused(
        () -> group.batch(() -> {}, new ForeignDevice.ForeignStream()),
        "the stream belongs to GPU 3, the group computes on " + device);
  }

  @Test
  void whatIsClosedIsRefusedWhereItIsNamed() {
    DeviceBuffer closed = device.allocate(DataType.FLOAT32, 8);
    closed.close();
    String sentence = "the buffer float32[8] is closed";
    misused(() -> group.send(closed, 0), sentence);
    misused(() -> group.recv(closed, 0), sentence);
    misused(() -> group.sendReceive(eight, 0, closed, 2), sentence);
    misused(
        () ->
            group.batch(
                () -> {
                  group.send(eight, 0);
                  group.send(closed, 2);
                }),
        sentence);
    DeviceStream stream = device.createStream();
    stream.close();
    misused(
        () -> group.send(eight, 0, stream),
        "the stream is closed, a call needs an open one on " + device);
  }

  @Test
  void aBufferThatIsClosedWhileItsBatchIsMadeStopsAllOfIt() {
    DeviceBuffer doomed = device.allocate(DataType.FLOAT32, 8);
    misused(
        () ->
            group.batch(
                () -> {
                  group.send(eight, 0);
                  group.send(doomed, 2);
                  doomed.close();
                }),
        "the buffer float32[8] is closed");
  }

  @Test
  void oneSendsItselfOnlyWhatItReceives() {
    refused(
        () -> group.send(eight, 1),
        "peer is 1, this rank itself, whose send needs its counterpart in the same batch");
    refused(
        () -> group.recv(eight, 1),
        "peer is 1, this rank itself, whose recv needs its counterpart in the same batch");
    refused(
        () -> group.sendReceive(eight, 1, four, 0),
        "destination is 1 and source is 0; if one of them is this rank, 1, the other must be too");
    refused(
        () -> group.sendReceive(eight, 1, four, 1),
        "this rank, 1, sends itself FLOAT32[8] and receives FLOAT32[4]");
    refused(
        () -> group.batch(() -> group.send(eight, 1)),
        "the send to rank 1 itself has no recv in the same batch");
    refused(
        () -> group.batch(() -> group.recv(eight, 1)),
        "the recv from rank 1 itself has no send in the same batch");
    refused(
        () ->
            group.batch(
                () -> {
                  group.recv(four, 1);
                  group.send(eight, 1);
                }),
        "the send to rank 1 (transfer 1 of the batch) itself is of float32[8], its recv of float32[4]");
    refused(
        () ->
            group.batch(
                () -> {
                  group.sendReceive(eight.slice(0, 2), 1, eight.slice(2, 2), 1);
                  group.recv(eight.slice(4, 2), 1);
                }),
        "the recv from rank 1 (transfer 2 of the batch) itself has no send in the same batch");
  }

  @Test
  void whatIsReceivedIntoMayNotOverlap() {
    String overlap = ".*\\(16 bytes at 0x.*\\) and .*\\(16 bytes at 0x.*\\) overlap";
    DeviceBuffer low = eight.slice(0, 4);
    DeviceBuffer high = eight.slice(2, 4);
    assertThatThrownBy(() -> group.sendReceive(low, 0, high, 2))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageMatching(overlap);
    assertThatThrownBy(() -> group.sendReceive(low, 0, low, 2)).hasMessageMatching(overlap);
    refused(
        () ->
            group.batch(
                () -> {
                  group.recv(low, 0);
                  group.recv(high, 2);
                }),
        "the recv from rank 0 (transfer 0 of the batch) and the recv from rank 2 (transfer 1 of the batch) overlap");
    refused(
        () ->
            group.batch(
                () -> {
                  group.recv(low, 0);
                  group.send(high, 2);
                }),
        "the recv from rank 0 (transfer 0 of the batch) and the send to rank 2 (transfer 1 of the batch) overlap");
  }

  @Test
  void anEmptyBufferOverlapsNothing() {
    members.onAll(
        member -> {
          Device own = member.device();
          try (DeviceBuffer all = own.allocate(DataType.FLOAT32, 8)) {
            switch (member.rank()) {
              case 0 -> member.recv(all, 1);
              case 1 -> member.sendReceive(all, 0, all.slice(3, 0), 2);
              default -> member.send(all.slice(3, 0), 1);
            }
            Members.complete(member);
          }
        });
  }

  @Test
  void nothingButTransfersHasAPlaceInABatch() {
    String tail = " was called inside a batch, which takes send, recv and sendReceive only";
    misused(() -> group.batch(() -> group.allReduce(eight)), "allReduce" + tail);
    misused(() -> group.batch(() -> group.reduce(eight, 0)), "reduce" + tail);
    misused(
        () -> group.batch(() -> group.reduceScatter(eight, eight.slice(0, 2))),
        "reduceScatter" + tail);
    misused(() -> group.batch(() -> group.allGather(four, eight)), "allGather" + tail);
    misused(() -> group.batch(() -> group.allToAll(eight)), "allToAll" + tail);
    misused(() -> group.batch(() -> group.broadcast(eight, 0)), "broadcast" + tail);
    misused(() -> group.batch(group::barrier), "barrier" + tail);
    misused(() -> group.batch(() -> group.split(0, 0)), "split" + tail);
    misused(() -> group.batch(() -> group.batch(() -> {})), "batch" + tail);
  }

  @Test
  void theLaunchOfAGraphInABatchRunsNoneOfItsCalls() {
    String sentence =
        "a graph with calls of this group was launched inside a batch, which takes send, recv and sendReceive only";
    DeviceBuffer target = eight.slice(4, 4);
    target.copyFrom(new float[] {0, 0, 0, 0});
    four.copyFrom(new float[] {1, 2, 3, 4});
    for (Runnable recorded :
        List.<Runnable>of(
            () -> group.sendReceive(four, 1, target, 1),
            () -> group.batch(() -> group.sendReceive(four, 1, target, 1)),
            () -> group.allReduce(four.slice(0, 0)))) {
      try (DeviceStream stream = device.createStream();
          DeviceGraph graph = device.capture(group.stream(), recorded)) {
        misused(() -> group.batch(() -> graph.launch(stream)), sentence);
      }
    }
    float[] untouched = new float[4];
    target.copyTo(untouched);
    assertThat(untouched).containsOnly(0);
  }

  @Test
  void aTransferThatNamesAnotherStreamThanItsBatchIsRefused() {
    try (DeviceStream stream = device.createStream()) {
      refused(
          () -> group.batch(() -> group.send(eight, 0, group.stream()), stream),
          "send names a stream, but is inside a batch that runs on another stream");
      refused(
          () -> group.batch(() -> group.recv(eight, 0, stream)),
          "recv names a stream, but is inside a batch that runs on another stream");
      refused(
          () -> group.batch(() -> group.sendReceive(eight, 0, four, 2, stream)),
          "sendReceive names a stream, but is inside a batch that runs on another stream");
    }
  }

  @Test
  void aBatchThatThrowsSendsNothingAndTheNextOneIsWhole() {
    IllegalStateException mistake = new IllegalStateException("changed my mind");
    assertThatThrownBy(
            () ->
                group.batch(
                    () -> {
                      group.send(eight, 0);
                      group.recv(four, 2);
                      throw mistake;
                    }))
        .isSameAs(mistake);
    four.copyFrom(new float[] {1, 2, 3, 4});
    group.batch(() -> group.sendReceive(four, 1, eight.slice(0, 4), 1));
    float[] back = new float[4];
    eight.copyTo(back);
    assertThat(back).containsExactly(1, 2, 3, 4);
    group.batch(() -> {});
  }

  @Test
  void aBatchIsTheThreadsThatMakesIt() throws Exception {
    CountDownLatch making = new CountDownLatch(1);
    CountDownLatch tried = new CountDownLatch(1);
    DeviceBuffer target = eight.slice(4, 4);
    Future<Boolean> maker =
        members.start(
            () -> {
              group.batch(
                  () -> {
                    group.sendReceive(four, 1, target, 1);
                    making.countDown();
                    try {
                      assertThat(tried.await(20, TimeUnit.SECONDS)).isTrue();
                    } catch (InterruptedException e) {
                      throw new AssertionError(e);
                    }
                  });
              return true;
            });
    assertThat(making.await(20, TimeUnit.SECONDS)).isTrue();
    try {
      misused(
          () -> group.batch(() -> {}),
          "batch was called while another thread makes a batch of the same group");
      // Not collected by the other thread: it runs at once.
      four.copyFrom(new float[] {5, 6, 7, 8});
      group.sendReceive(four, 1, eight.slice(0, 4), 1);
      float[] back = new float[4];
      eight.copyTo(back);
      assertThat(back).containsExactly(5, 6, 7, 8);
    } finally {
      tried.countDown();
    }
    assertThat(maker.get(20, TimeUnit.SECONDS)).isTrue();
  }

  @Test
  void aRefusedTransferIsNotRecorded() {
    assertThatThrownBy(() -> device.capture(group.stream(), () -> group.send(eight, 9)))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(
            () -> device.capture(group.stream(), () -> group.batch(() -> group.send(eight, 9))))
        .isInstanceOf(IllegalArgumentException.class);
    assertThat(group.stream().isCapturing()).isFalse();
  }
}
