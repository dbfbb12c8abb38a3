package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Algorithm;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.internal.device.async.AsyncStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Every call is recorded while its stream captures, and runs at each launch on what is there then.
 */
@Tag("contract")
class GraphCaptureTest {

  @Test
  void everyCollectiveAndTransferIsReplayedOnNewValues() {
    try (Members members = Members.join("graph", 2, Members.config().build())) {
      members.onAll(GraphCaptureTest::replay);
    }
  }

  private static void replay(CollectiveGroup group) {
    int rank = group.rank();
    int peer = 1 - rank;
    try (DeviceStream stream = group.device().createStream();
        DeviceBuffer in = group.device().allocate(DataType.INT32, 2);
        DeviceBuffer out = group.device().allocate(DataType.INT32, 20)) {
      DeviceBuffer own = in.slice(rank, 1);
      DeviceBuffer ownOne = in.slice(0, 1);
      Runnable step =
          () -> {
            group.allReduce(in, out.slice(0, 2), ReduceOp.SUM, stream);
            group.allReduce(in, out.slice(2, 2), ReduceOp.MAX, Algorithm.TWO_SHOT, stream);
            group.reduce(in, rank == 1 ? out.slice(4, 2) : null, ReduceOp.PRODUCT, 1, stream);
            group.reduceScatter(in, out.slice(6, 1), ReduceOp.MIN, stream);
            group.allGather(own, out.slice(7, 2), stream);
            group.allToAll(in, out.slice(9, 2), stream);
            group.broadcast(in, out.slice(11, 2), 1, stream);
            group.barrier(stream);
            group.sendReceive(in, peer, out.slice(13, 2), peer, stream);
            if (rank == 0) {
              group.send(ownOne, peer, stream);
              group.recv(out.slice(15, 1), peer, stream);
            } else {
              group.recv(out.slice(15, 1), peer, stream);
              group.send(ownOne, peer, stream);
            }
            group.batch(
                () -> {
                  group.send(in, peer);
                  group.recv(out.slice(16, 2), peer);
                  group.send(in, rank);
                  group.recv(out.slice(18, 2), rank, stream);
                },
                stream);
          };
      try (DeviceGraph graph = group.device().capture(stream, step)) {
        for (int round = 1; round <= 3; round++) {
          // Rank 0 holds {r, 2r}, rank 1 {3r, 5r}.
          int[] mine = rank == 0 ? new int[] {round, 2 * round} : new int[] {3 * round, 5 * round};
          int[] theirs =
              rank == 0 ? new int[] {3 * round, 5 * round} : new int[] {round, 2 * round};
          in.copyFrom(mine);
          out.copyFrom(new int[20]);
          graph.launch(stream);
          int[] got = new int[20];
          out.copyTo(got);
          int[] product =
              rank == 1 ? new int[] {3 * round * round, 10 * round * round} : new int[2];
          int[] gathered = {round, 5 * round};
          int[] fromEach =
              rank == 0 ? new int[] {round, 3 * round} : new int[] {2 * round, 5 * round};
          assertThat(got)
              .containsExactly(
                  4 * round,
                  7 * round,
                  3 * round,
                  5 * round,
                  product[0],
                  product[1],
                  rank == 0 ? round : 2 * round,
                  gathered[0],
                  gathered[1],
                  fromEach[0],
                  fromEach[1],
                  3 * round,
                  5 * round,
                  theirs[0],
                  theirs[1],
                  theirs[0],
                  theirs[0],
                  theirs[1],
                  mine[0],
                  mine[1]);
        }
      }
    }
  }

  @Test
  void aLaunchHearsOfAGroupWhoseCallsWereRecordedOnAJoinedStream() {
    assumeTrue(TestBackend.isCuda(), "the host captures one stream only");
    try (Members members = Members.join("forked", 1, Members.config().build())) {
      forkAndJoin(members.rank(0));
    }
  }

  private static void forkAndJoin(CollectiveGroup group) {
    Device device = group.device();
    try (DeviceStream stream = device.createStream();
        DeviceStream side = device.createStream();
        DeviceEvent fork = device.createEvent();
        DeviceEvent join = device.createEvent();
        DeviceBuffer in = device.allocate(DataType.INT32, 2);
        DeviceBuffer out = device.allocate(DataType.INT32, 2);
        DeviceGraph graph =
            device.capture(
                stream,
                () -> {
                  fork.record(stream);
                  side.waitFor(fork);
                  group.allReduce(in, out, ReduceOp.SUM, side);
                  join.record(side);
                  stream.waitFor(join);
                })) {
      in.copyFrom(new int[] {7, 10});
      graph.launch(stream);
      int[] sums = new int[2];
      out.copyTo(sums);
      assertThat(sums).containsExactly(7, 10);
      group.abort("this test wants it so");
      assertThatThrownBy(() -> graph.launch(stream))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("this test wants it so");
      assertThatThrownBy(stream::synchronize)
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("this test wants it so");
      group.close();
      assertThatThrownBy(() -> graph.launch(stream)).isInstanceOf(RuntimeException.class);
    }
  }

  /** Nobody counts launches of graphs that have not begun, and a sum that is not made is no sum. */
  @Test
  void whatWasLaunchedBeforeAllCloseIsStillExecuted() throws Exception {
    assumeTrue(TestBackend.isCuda(), "on the host a launch returns when the work is done");
    int ranks = 2;
    List<DeviceStream> streams = Collections.synchronizedList(new ArrayList<>());
    List<DeviceBuffer> sums = Collections.synchronizedList(new ArrayList<>());
    try (Members members = Members.join("late", ranks, Members.config().build())) {
      members.onAll(
          group -> {
            DeviceStream stream = group.device().createStream();
            DeviceBuffer sum = group.device().allocate(DataType.INT32, 4);
            sum.copyFrom(new int[] {1, 2, 3, 4});
            DeviceGraph graph = group.device().capture(stream, () -> group.allReduce(sum, stream));
            keepBusy(group.device(), stream);
            graph.launch(stream);
            streams.add(stream);
            sums.add(sum);
          });
      assertThat(((AsyncStream) streams.get(0)).isIdle()).as("the stream is busy").isFalse();
    }
    for (int i = 0; i < ranks; i++) {
      streams.get(i).synchronize();
      int[] values = new int[4];
      sums.get(i).copyTo(values);
      assertThat(values).containsExactly(2, 4, 6, 8);
      sums.get(i).close();
      streams.get(i).close();
    }
  }

  /** For some tenths of a second. */
  private static void keepBusy(Device device, DeviceStream stream) {
    DeviceBuffer from = device.allocate(DataType.UINT8, 1L << 29);
    DeviceBuffer to = device.allocate(DataType.UINT8, 1L << 29);
    DeviceGraph copies =
        device.capture(
            stream,
            () -> {
              for (int i = 0; i < 250; i++) {
                stream.copy(from, to);
              }
            });
    for (int i = 0; i < 8; i++) {
      copies.launch(stream);
    }
  }

  @Test
  @Tag("host") // what a GPU has recorded it launches without a look
  void aRecordedCallLooksAtTheGroupAndItsBuffersAtEveryLaunch() {
    try (Members members = Members.join("stale", 1, Members.config().build())) {
      CollectiveGroup group = members.rank(0);
      DeviceBuffer a = group.device().allocate(DataType.INT32, 4);
      DeviceBuffer b = group.device().allocate(DataType.INT32, 4);
      try (DeviceGraph graph =
          group
              .device()
              .capture(group.stream(), () -> group.batch(() -> group.sendReceive(a, 0, b, 0)))) {
        a.copyFrom(new int[] {1, 2, 3, 4});
        graph.launch(group.stream());
        int[] back = new int[4];
        b.copyTo(back);
        assertThat(back).containsExactly(1, 2, 3, 4);
        b.close();
        assertThatThrownBy(() -> graph.launch(group.stream()))
            .isInstanceOf(IllegalStateException.class)
            .hasMessage("the buffer int32[4] is closed");
        a.close();
      }
    }
  }
}
