package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.LinkSecurity;
import io.nvrar.ReduceOp;
import io.nvrar.internal.call.ClosedRanks;
import io.nvrar.internal.call.Obstacles;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Ranks of one host that are linked as if its nodes were hosts. */
class LinkedRanksTest {
  private static final Links LOOPBACK = at("127.0.0.1");

  private static Links at(String address) {
    byte[] secret = new byte[Links.SECRET_BYTES];
    Arrays.fill(secret, (byte) 7);
    return new Links(address, true, secret);
  }

  private static final GroupConfig TWO_NODES =
      GroupConfig.builder().timeout(Duration.ofSeconds(20)).gpusPerNode(2).build();

  @ParameterizedTest
  @CsvSource({"PLAIN, 127.0.0.1", "ENCRYPTED, 127.0.0.1", "PLAIN, ::1", "ENCRYPTED, ::1"})
  void aSumCrossesLinksAndEveryRankKnowsWhatTheOthersDo(LinkSecurity security, String loopback)
      throws Exception {
    GroupConfig config = TWO_NODES.toBuilder().links(links -> links.security(security)).build();
    try (Ranks ranks = new Ranks(4, config, at(loopback))) {
      ranks.all(
          (member, rank) -> {
            DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, rank, 10 * rank);
            Ranks.allReduce(member, buffer, ReduceOp.SUM, Algorithm.AUTO);
            assertThat(values(buffer)).containsExactly(6, 60);
          });
      ranks.member(0).refresh(true);
      CallRecord remote = ranks.member(0).call(3);
      assertThat(remote.description()).startsWith("allReduce #1 float32[2] SUM");
      assertThat(remote.state()).isEqualTo(CallRecord.State.DONE);
    }
  }

  private static float[] values(DeviceBuffer buffer) {
    float[] values = new float[2];
    buffer.copyTo(values);
    return values;
  }

  @Test
  void whatARankElsewhereDoesIsUnknownUntilItHasMadeACall() throws Exception {
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      assertThat(ranks.member(1).call(0)).isSameAs(CallRecord.NONE);
      assertThat(ranks.member(1).isElsewhere(0)).isFalse();
      assertThat(ranks.member(1).call(2)).isSameAs(CallRecord.UNKNOWN);
      assertThat(ranks.member(1).isElsewhere(2)).isTrue();
      assertThat(ranks.member(1).flightRecord(2)).isEmpty();
    }
  }

  @Test
  void theEndsOfALinkAreTheSameOnBothAndSoIsItsState() throws Exception {
    String end = "127\\.0\\.0\\.1:[1-9][0-9]*";
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      assertThat(ranks.member(1).link(0)).as("in the same node").isNull();
      String link = Objects.requireNonNull(ranks.member(1).link(2));
      assertThat(link).matches(end + " to " + end + ", open");
      assertThat(ranks.member(2).link(1))
          .isEqualTo(link.replaceFirst("(.*) to (.*), open", "$2 to $1, open"));
      ranks.member(2).close();
      await()
          .atMost(Duration.ofSeconds(5))
          .until(() -> link.replace("open", "closed").equals(ranks.member(1).link(2)));
      assertThat(ranks.member(2).link(1)).as("after the close").isNull();
      assertThat(ranks.member(1).link(3)).endsWith(", open");
    }
  }

  @Test
  void anAnswerTellsThatAllHasComeThatARankSentBefore() throws Exception {
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      NativeCommunicator member = ranks.member(0);
      long asked = member.asked(2);
      assertThat(member.hasAnsweredAfter(2, asked)).isFalse();
      member.refresh(false);
      assertThat(member.asked(2)).isEqualTo(asked + 1);
      await().atMost(Duration.ofSeconds(5)).until(() -> member.hasAnsweredAfter(2, asked));
      assertThat(member.hasAnsweredAfter(2, asked + 1)).isFalse();
      assertThat(member.hasAnsweredAfter(1, 7)).as("on this host").isTrue();
      ranks.member(2).close();
      await().atMost(Duration.ofSeconds(5)).until(() -> member.hasAnsweredAfter(2, asked + 1));
    }
  }

  /** What a rank has sent and then closed may be under way for any time. */
  @Test
  void aTransferIsNotGivenUpBeforeTheClosedRankHasAnsweredHoweverLate() throws Exception {
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      NativeCommunicator member = ranks.member(0);
      DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, 0, 0);
      Future<?> receiving = ranks.start(0, (own, rank) -> own.run(new Call().recv(buffer, 2), 0));
      ranks.awaitRunning(0, 1);
      Obstacles obstacles = new Obstacles(0, 4);
      ClosedRanks closed = ClosedRanks.NONE.with(2, 0);
      long now = System.nanoTime();
      assertThat(obstacles.of(member, closed, now)).isNull();
      long late = now + Duration.ofHours(1).toNanos();
      assertThat(obstacles.of(member, closed, late))
          .as("an hour later, in which nobody looked")
          .isNull();
      AtomicLong later = new AtomicLong(late);
      long pause = Duration.ofSeconds(3).toNanos();
      await()
          .atMost(Duration.ofSeconds(5))
          .until(() -> obstacles.of(member, closed, later.addAndGet(pause)) != null);
      assertThat(obstacles.of(member, closed, later.addAndGet(pause)))
          .isEqualTo(
              new ClosedRanks.Obstacle(
                  2,
                  "rank 2 closed the group and takes no part in recv #1 float32[2] from rank 2"));
      assertThat(receiving).isNotDone();
      member.abort();
      assertThatThrownBy(receiving::get).hasCauseInstanceOf(CollectiveException.class);
    }
  }

  /** It might still be in the last call that all have made. */
  @Test
  void aCollectiveIsNotGivenUpBeforeTheRanksElsewhereHaveToldWhatTheyDo() throws Exception {
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      ranks.all((member, rank) -> Ranks.barrier(member));
      NativeCommunicator member = ranks.member(0);
      Future<?> waiting = ranks.start(0, (own, rank) -> Ranks.barrier(own));
      ranks.awaitRunning(0, 2);
      Obstacles obstacles = new Obstacles(0, 4);
      ClosedRanks closed = ClosedRanks.NONE.with(2, 1);
      long now = System.nanoTime();
      ClosedRanks.Obstacle early = obstacles.of(member, closed, now);
      long late = now + Duration.ofHours(1).toNanos();
      ClosedRanks.Obstacle anHourLater = obstacles.of(member, closed, late);
      if (member.call(3).state() == CallRecord.State.UNKNOWN) { // it was asked just now
        assertThat(early).isNull();
        assertThat(anHourLater).isNull();
      }
      await()
          .atMost(Duration.ofSeconds(5))
          .until(() -> member.call(3).state() != CallRecord.State.UNKNOWN);
      assertThat(obstacles.of(member, closed, late)).as("rank 1 is on this host").isNotNull();
      assertThat(waiting).isNotDone();
      member.abort();
      assertThatThrownBy(waiting::get).hasCauseInstanceOf(CollectiveException.class);
    }
  }

  @Test
  void aRankIsClosedWhileItAsksTheOthers() throws Exception {
    try (Ranks ranks = new Ranks(4, TWO_NODES, LOOPBACK)) {
      NativeCommunicator member = ranks.member(0);
      Thread asking =
          new Thread(
              () -> {
                while (member.failure() == null) {
                  member.refresh(true);
                }
              });
      asking.start();
      Thread.sleep(50);
      member.abort();
      member.close();
      asking.join();
      member.refresh(true);
      assertThat(member.failure()).isNotNull();
    }
  }

  @Test
  void aRankListensOnAPortOfTheRangeOrSaysThatThereIsNone() throws IOException {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      int port = taken.getLocalPort();
      GroupConfig config = TWO_NODES.toBuilder().links(links -> links.ports(port, port)).build();
      byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
      assertThatThrownBy(
              () ->
                  NativeCommunicator.prepare(
                      "a group of 4", Backend.CPU, 0, 0, 4, id, LOOPBACK, config))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining(
              String.format(Locale.ROOT, "127.0.0.1, ports %d to %d", port, port));
    }
  }

  @Test
  void anAddressOfAnotherHostIsRefused() {
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    Links elsewhere = at("203.0.113.7");
    assertThatThrownBy(
            () ->
                NativeCommunicator.prepare(
                    "a group of 4", Backend.CPU, 0, 0, 4, id, elsewhere, TWO_NODES))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("203.0.113.7");
  }
}
