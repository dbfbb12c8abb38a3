package io.nvrar.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
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
