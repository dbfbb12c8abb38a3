package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Transfers are counted by pairs, collectives by the group; a close must not mix them up. */
@Tag("contract")
@Tag("slow")
class ClosedPeerTest {

  private static Future<?> close(Members members, int rank) {
    Future<?> closing =
        members.start(
            () -> {
              members.rank(rank).close();
              return null;
            });
    await()
        .until(
            () ->
                members.groups.stream()
                    .filter(group -> group.rank() != rank)
                    .allMatch(group -> group.health().ranks().get(rank).closed()));
    return closing;
  }

  private static Future<?> barrier(Members members, int rank) {
    return members.start(
        () -> {
          Members.barrier(members.rank(rank));
          return null;
        });
  }

  private static float[] recv(CollectiveGroup group, int peer) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 4)) {
      group.recv(buffer, peer);
      float[] values = new float[4];
      buffer.copyTo(values);
      return values;
    }
  }

  private static void send(CollectiveGroup group, int peer, int count) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, count)) {
      float[] values = new float[count];
      Arrays.fill(values, 7);
      buffer.copyFrom(values);
      group.send(buffer, peer);
      Members.complete(group);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRecvFromARankThatClosesEndsSoon(boolean isClosedBefore) throws Exception {
    try (Members members = Members.join("recv", 3, Members.config().build())) {
      members.onAll(CollectiveGroup::barrier);
      Future<?> closing = isClosedBefore ? close(members, 0) : null;
      Future<float[]> waiting = members.start(() -> recv(members.rank(1), 0));
      Thread.sleep(100);
      long start = System.nanoTime();
      if (closing == null) {
        closing = close(members, 0);
      }
      assertThat(Members.failureOf(waiting))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageStartingWith(
              "rank 0 closed the group and takes no part in recv #1 float32[4]");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
      members.rank(1).close();
      members.rank(2).close();
      closing.get();
    }
  }

  @Test
  void aSendThatARankWhichClosedWillNeverTakeEndsSoon() throws Exception {
    try (Members members = Members.join("send", 2, Members.config().build())) {
      Future<?> closing = close(members, 1);
      Future<?> waiting =
          members.start(
              () -> {
                send(members.rank(0), 1, 8 << 20); // more than any ring holds
                return null;
              });
      assertThat(Members.failureOf(waiting))
          .hasMessageStartingWith("rank 1 closed the group and takes no part in send #1 float32");
      members.rank(0).close();
      closing.get();
    }
  }

  @Test
  void aTransferThatIsNotTheLastOfItsBatchToBeginEndsSoon() throws Exception {
    try (Members members = Members.join("batch", 3, Members.config().build());
        DeviceBuffer zero = members.rank(0).device().allocate(DataType.FLOAT32, 4);
        DeviceBuffer two = members.rank(0).device().allocate(DataType.FLOAT32, 4)) {
      Future<?> closing = close(members, 2);
      Future<?> waiting =
          members.start(
              () -> {
                CollectiveGroup group = members.rank(0);
                group.batch(
                    () -> {
                      group.recv(two, 2);
                      group.recv(zero, 1);
                    });
                Members.complete(group);
                return null;
              });
      send(members.rank(1), 0, 4);
      assertThat(Members.failureOf(waiting))
          .hasMessageStartingWith(
              "rank 2 closed the group and takes no part in recv #1 float32[4]");
      members.rank(0).close();
      members.rank(1).close();
      closing.get();
    }
  }

  @Test
  void whoClosedFirstHearsOfItsOwnCloseAndNotOfWhatItMeantToTheOthers() throws Exception {
    try (Members members = Members.join("own", 3, Members.config().build())) {
      members.onAll(CollectiveGroup::barrier);
      Future<?> waiting = barrier(members, 0);
      Thread.sleep(100);
      Future<?> closing = close(members, 1);
      assertThat(Members.failureOf(waiting)).hasMessageStartingWith("rank 1 closed the group");
      closing.get(); // it ends because the failure has come to rank 1, too
      assertThatThrownBy(() -> members.rank(1).barrier())
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("is closed; rank 1 can make no more calls");
      members.rank(0).close();
      members.rank(2).close();
    }
  }

  @Test
  void whatARankHasSentArrivesAlsoAfterItClosed() throws Exception {
    try (Members members = Members.join("sent", 2, Members.config().build())) {
      Future<float[]> received =
          members.start(
              () -> {
                Thread.sleep(500);
                return recv(members.rank(1), 0);
              });
      send(members.rank(0), 1, 4);
      Future<?> closing = close(members, 0);
      assertThat(received.get()).containsOnly(7);
      members.rank(1).close();
      closing.get();
    }
  }

  @Test
  void aTransferThatACollectiveWithoutTheClosedRankHasEndedSaysSoAtOnce() throws Exception {
    try (Members members = Members.join("ended", 3, Members.config().build())) {
      Future<?> collective = barrier(members, 0);
      Thread.sleep(200);
      Future<?> closing = close(members, 2);
      assertThat(Members.failureOf(collective))
          .hasMessageContaining(
              "rank 2 closed the group before its first call; if an exception made it close, abort(e)");
      Future<?> running = members.start(() -> recv(members.rank(1), 0));
      long start = System.nanoTime();
      assertThat(Members.failureOf(running))
          .hasMessageContaining(
              "rank 2 closed the group before its first call; if an exception made it close, abort(e)");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
      members.rank(0).close();
      members.rank(1).close();
      closing.get();
    }
  }

  @Test
  void anAbortByARankThatHasClosedIsWhatEndsATransferWithAnother() throws Exception {
    try (Members members = Members.join("abort", 2, Members.config().build())) {
      members.onAll(CollectiveGroup::barrier);
      Future<?> closing = close(members, 0);
      try (DeviceBuffer buffer = members.rank(1).device().allocate(DataType.FLOAT32, 4);
          DeviceBuffer other = members.rank(1).device().allocate(DataType.FLOAT32, 4)) {
        members.rank(0).abort("enough");
        // At once: the group's memory knows of the abort before the control channel does.
        assertThatThrownBy(() -> members.rank(1).sendReceive(buffer, 0, other, 0))
            .isExactlyInstanceOf(CollectiveException.class)
            .hasMessageContaining("enough");
      }
      members.rank(1).close();
      closing.get();
    }
  }

  @Test
  void twoRanksExchangeAsOftenAsTheyLikeAfterAThirdHasClosed() throws Exception {
    try (Members members = Members.join("third", 3, Members.config().build())) {
      members.onAll(CollectiveGroup::barrier);
      Future<?> closing = close(members, 2);
      Future<Integer> other = members.start(() -> exchange(members.rank(1), 0));
      assertThat(exchange(members.rank(0), 1)).isEqualTo(2000);
      assertThat(other.get()).isEqualTo(2000);
      assertThat(members.rank(0).health().healthy()).isTrue();
      members.rank(0).close();
      members.rank(1).close();
      closing.get();
    }
  }

  private static int exchange(CollectiveGroup group, int peer) {
    try (DeviceBuffer send = group.device().allocate(DataType.FLOAT32, 1000);
        DeviceBuffer recv = group.device().allocate(DataType.FLOAT32, 1000)) {
      int done = 0;
      while (done < 2000) {
        group.sendReceive(send, peer, recv, peer);
        done++;
      }
      Members.complete(group);
      return done;
    }
  }
}
