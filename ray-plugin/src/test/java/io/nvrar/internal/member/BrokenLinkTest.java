package io.nvrar.internal.member;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.PeerLostException;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What members make of it that the native library has lost a link. The members are on one host,
 * where none is; that one broke is only said.
 */
class BrokenLinkTest {
  private static final String BROKE = "the connection broke";

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<CollectiveGroup> groups = new ArrayList<>();
  private GroupObserver driver;

  @BeforeEach
  void join() throws Exception {
    byte[] ticket = Groups.createTicket("link", 3, Members.config().build(), Members.HOST);
    List<Future<CollectiveGroup>> joins = new ArrayList<>();
    for (int r = 0; r < 3; r++) {
      int rank = r;
      joins.add(threads.submit(() -> Members.join(ticket, rank)));
    }
    driver = Groups.observe(ticket, Duration.ofSeconds(5));
    for (Future<CollectiveGroup> join : joins) {
      groups.add(join.get());
    }
  }

  @AfterEach
  void leave() {
    driver.close();
    groups.forEach(CollectiveGroup::close);
    threads.shutdownNow();
  }

  /** What a rank's call throws whose link to another rank broke. */
  private Future<RuntimeException> callOf(int rank, int lost) {
    CallGate gate = ((MemberGroup) groups.get(rank)).gate();
    return threads.submit(() -> gate.failed(new PeerLostException(BROKE, lost, "", 0)));
  }

  private static String sentence(int lost, int teller) {
    ProcessIdentity here = ProcessIdentity.current();
    return "rank %d (%s) was lost: its link to rank %d (%s) broke: %s"
        .formatted(lost, here, teller, here, BROKE);
  }

  @Test
  void aLinkThatBrokeAloneIsTheSameLossOnAllMembersAndTheDriver() throws Exception {
    Future<RuntimeException> one = callOf(1, 2);
    Future<RuntimeException> other = callOf(2, 1);
    assertThat(one.get()).isExactlyInstanceOf(PeerLostException.class);
    PeerLostException lost = (PeerLostException) one.get();
    assertThat(lost.lostRank()).isBetween(1, 2);
    assertThat(lost.host()).isEqualTo(ProcessIdentity.current().host());
    assertThat(lost.pid()).isEqualTo(ProcessHandle.current().pid());
    assertThat(lost).hasMessageStartingWith(sentence(lost.lostRank(), 3 - lost.lostRank()));
    assertThat(other.get()).isExactlyInstanceOf(PeerLostException.class);
    await()
        .atMost(Duration.ofSeconds(1))
        .untilAsserted(
            () -> {
              seesTheSame(lost, (PeerLostException) other.get());
              groups.forEach(group -> seesTheSame(lost, group.failure()));
              seesTheSame(lost, driver.failure());
            });
  }

  private static void seesTheSame(PeerLostException lost, @Nullable CollectiveException seen) {
    assertThat(seen)
        .isInstanceOfSatisfying(
            PeerLostException.class, e -> assertThat(e.lostRank()).isEqualTo(lost.lostRank()))
        .hasMessageStartingWith(sentence(lost.lostRank(), 3 - lost.lostRank()));
  }

  @Test
  void whatTheControlChannelSaysInTimeIsTheReasonOfABrokenLink() throws Exception {
    Future<RuntimeException> call = callOf(1, 2);
    Thread.sleep(300);
    groups.get(0).abort("it has no memory left");
    assertThat(call.get())
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageContaining("rank 0")
        .hasMessageContaining("aborted group 'link': it has no memory left");
  }

  @Test
  void aMemberThatIsClosedMeanwhileSaysThat() throws Exception {
    Future<RuntimeException> call = callOf(1, 2);
    Thread.sleep(100);
    for (CollectiveGroup group : groups) {
      threads.execute(group::close);
    }
    assertThat(call.get())
        .isExactlyInstanceOf(IllegalStateException.class)
        .hasMessage("group 'link' is closed; rank 1 can make no more calls");
  }
}
