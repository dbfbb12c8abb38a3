package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupMismatchException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Sends, recvs and batches between the members of one process. */
@Tag("contract")
class TransfersTest {
  private static final int[] COUNTS = {0, 1, 17, 100_000};

  private static double[] values(int rank, int count) {
    double[] values = new double[count];
    for (int i = 0; i < count; i++) {
      values[i] = 1 + (7 * rank + 3 * i) % 97;
    }
    return values;
  }

  private static DeviceBuffer buffer(CollectiveGroup group, DataType type, double... values) {
    DeviceBuffer buffer = group.device().allocate(type, values.length);
    Elements.write(buffer, values);
    return buffer;
  }

  @ParameterizedTest
  @EnumSource(DataType.class)
  void whatOneRankSendsTheOtherReceives(DataType type) {
    try (Members members = Members.join("transfers", 3, Members.config().build())) {
      for (int count : COUNTS) {
        members.onAll(
            group -> {
              int rank = group.rank();
              try (DeviceBuffer mine = buffer(group, type, values(rank, count));
                  DeviceBuffer theirs = buffer(group, type, new double[count])) {
                switch (rank) {
                  case 0 -> {
                    group.send(mine, 2);
                    Members.complete(group);
                  }
                  case 2 -> {
                    group.recv(theirs, 0);
                    assertThat(Elements.read(theirs)).isEqualTo(values(0, count));
                  }
                  default -> {} // not concerned, and so not asked
                }
              }
            });
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void aRingOfSendReceivesWaitsForNobodyInACircle(int worldSize) {
    try (Members members = Members.join("ring", worldSize, Members.config().build())) {
      for (int count : COUNTS) {
        members.onAll(
            group -> {
              int next = (group.rank() + 1) % worldSize;
              int previous = (group.rank() + worldSize - 1) % worldSize;
              try (DeviceBuffer mine = buffer(group, DataType.INT32, values(group.rank(), count));
                  DeviceBuffer theirs = buffer(group, DataType.INT32, new double[count])) {
                group.sendReceive(mine, next, theirs, previous);
                assertThat(Elements.read(theirs)).isEqualTo(values(previous, count));
              }
            });
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void aBatchIsAnAllToAllWithPartsOfAnySizeInAnyOrder(int worldSize) {
    try (Members members = Members.join("batch", worldSize, Members.config().build())) {
      members.onAll(
          group -> {
            int rank = group.rank();
            DeviceBuffer[] sends = new DeviceBuffer[worldSize];
            DeviceBuffer[] recvs = new DeviceBuffer[worldSize];
            for (int peer = 0; peer < worldSize; peer++) {
              sends[peer] = buffer(group, DataType.FLOAT64, values(rank, 1000 * rank + peer));
              recvs[peer] = buffer(group, DataType.FLOAT64, new double[1000 * peer + rank]);
            }
            for (int round = 0; round < 3; round++) {
              group.batch(
                  () -> {
                    // All recvs first on odd ranks, all sends first on even ones.
                    for (int i = 0; i < 2 * worldSize; i++) {
                      int peer = i % worldSize;
                      if (i < worldSize == (rank % 2 == 0)) {
                        group.send(sends[peer], peer);
                      } else {
                        group.recv(recvs[peer], peer);
                      }
                    }
                  });
              for (int peer = 0; peer < worldSize; peer++) {
                assertThat(Elements.read(recvs[peer])).isEqualTo(values(peer, 1000 * peer + rank));
                Elements.write(recvs[peer], new double[1000 * peer + rank]);
              }
            }
            List.of(sends).forEach(DeviceBuffer::close);
            List.of(recvs).forEach(DeviceBuffer::close);
          });
    }
  }

  @Test
  void aBatchLongerThanAnyBeforeKeepsTheOrderOfEachPair() {
    int transfers = 100;
    try (Members members = Members.join("long", 2, Members.config().build())) {
      members.onAll(
          group -> {
            try (DeviceBuffer all = group.device().allocate(DataType.INT32, transfers)) {
              if (group.rank() == 0) {
                Elements.write(all, values(0, transfers));
              }
              group.batch(
                  () -> {
                    for (int i = 0; i < transfers; i++) {
                      if (group.rank() == 0) {
                        group.send(all.slice(i, 1), 1);
                      } else {
                        group.recv(all.slice(i, 1), 0);
                      }
                    }
                  });
              assertThat(Elements.read(all)).isEqualTo(values(0, transfers));
            }
          });
    }
  }

  @Test
  void aDifferenceBetweenSendAndRecvIsAMismatchOnBoth() throws Exception {
    try (Members members = Members.join("pair", 2, Members.config().build())) {
      Future<?> zero =
          members.start(
              () -> {
                CollectiveGroup group = members.rank(0);
                try (DeviceBuffer buffer = buffer(group, DataType.FLOAT32, values(0, 8))) {
                  group.send(buffer, 1);
                  // A send may be gone before it is looked at; the next call says so.
                  group.recv(buffer, 1);
                  Members.complete(group);
                }
                return null;
              });
      Future<?> one =
          members.start(
              () -> {
                CollectiveGroup group = members.rank(1);
                try (DeviceBuffer buffer = buffer(group, DataType.FLOAT32, values(0, 4))) {
                  group.recv(buffer, 0);
                  Members.complete(group);
                }
                return null;
              });
      for (Future<?> member : List.of(one, zero)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining("float32[4]")
            .hasMessageContaining("float32[8]");
      }
    }
  }

  @Test
  @Tag("host") // a GPU works on it after the call has returned
  void aBufferClosedWhileItIsReceivedIntoIsFreedAfterwards() throws Exception {
    try (Members members = Members.join("retain", 2, Members.config().build())) {
      CollectiveGroup one = members.rank(1);
      DeviceBuffer kept = one.device().allocate(DataType.FLOAT32, 1 << 20);
      DeviceBuffer closed = one.device().allocate(DataType.FLOAT32, 1 << 20);
      Future<Boolean> receiver =
          members.start(
              () -> {
                one.batch(
                    () -> {
                      one.recv(kept, 0);
                      one.recv(closed, 0);
                    });
                return true;
              });
      double[] values = values(0, 1 << 20);
      try (DeviceBuffer source = buffer(members.rank(0), DataType.FLOAT32, values)) {
        members.rank(0).send(source, 1);
        await().until(() -> Elements.read(kept.slice(0, 1))[0] == values[0]);
        // Were its 4 MiB given back here, the receiver would write to an unmapped page.
        closed.close();
        members.rank(0).send(source, 1);
      }
      assertThat(receiver.get(20, TimeUnit.SECONDS)).isTrue();
      assertThat(Elements.read(kept)).isEqualTo(values);
      kept.close();
    }
  }

  @Test
  void aFailedGroupRefusesTransfersAsItRefusesCollectives() {
    try (Members members = Members.join("failed", 2, Members.config().build());
        DeviceBuffer buffer = members.rank(0).device().allocate(DataType.FLOAT32, 4)) {
      CollectiveGroup zero = members.rank(0);
      members.rank(1).abort("enough");
      await()
          .atMost(Duration.ofSeconds(5))
          .untilAsserted(
              () ->
                  assertThatThrownBy(zero::throwIfFailed).isInstanceOf(CollectiveException.class));
      assertThatThrownBy(() -> zero.send(buffer, 1)).hasMessageContaining("enough");
      assertThatThrownBy(() -> zero.recv(buffer, 1)).hasMessageContaining("enough");
      assertThatThrownBy(() -> zero.sendReceive(buffer, 1, buffer.slice(0, 1), 1))
          .hasMessageContaining("enough");
      assertThatThrownBy(() -> zero.batch(() -> {})).hasMessageContaining("enough");
    }
  }
}
