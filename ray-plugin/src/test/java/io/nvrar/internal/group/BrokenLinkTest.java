package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.PeerLostException;
import io.nvrar.internal.binding.BrokenLinkException;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * What members make of it that the native library has lost a link. The members are on one host,
 * where none is; that one broke is only said.
 */
@Tag("slow")
class BrokenLinkTest {
  private static final String BROKE = "the connection broke";

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<CollectiveGroup> groups = new ArrayList<>();
  private GroupObserver driver;

  @BeforeEach
  void join() throws Exception {
    GroupTicket ticket = Groups.createTicket("link", 3, Members.config().build(), Members.HOST);
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
    return callOf(rank, lost, rank);
  }

  /** What a rank's call throws after the rank {@code origin} found its link to another broken. */
  private Future<RuntimeException> callOf(int rank, int missing, int origin) {
    return threads.submit(
        () ->
            gate(rank)
                .failures()
                .callFailed(new BrokenLinkException(BROKE, missing, origin), true));
  }

  private CallGate gate(int rank) {
    return ((MemberGroup) groups.get(rank)).gate();
  }

  private static String sentence(int lost, int teller) {
    ProcessIdentity here = ProcessIdentity.current();
    return String.format(
        Locale.ROOT,
        "rank %d (%s) was lost: its link to rank %d (%s) broke: %s",
        lost,
        here,
        teller,
        here,
        BROKE);
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
        .atMost(Duration.ofSeconds(3))
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
  void allMembersNameTheTwoEndsWhoeverTells() throws Exception {
    Future<RuntimeException> third = callOf(0, 2, 1);
    Future<RuntimeException> origin = callOf(1, 2, 1);
    assertThat(origin.get()).hasMessageStartingWith(sentence(2, 1));
    assertThat(third.get())
        .isExactlyInstanceOf(PeerLostException.class)
        .hasMessageStartingWith(sentence(2, 1));
    await().atMost(Duration.ofSeconds(3)).until(() -> groups.get(2).failure() != null);
    assertThat(groups.get(2).failure()).hasMessageStartingWith(sentence(2, 1));
  }

  @Test
  void theLostOneSaysThatTheOtherEndWasLost() throws Exception {
    assertThat(callOf(2, 2, 1).get()).hasMessageStartingWith(sentence(1, 2));
    await().atMost(Duration.ofSeconds(3)).until(() -> groups.get(0).failure() != null);
    assertThat(groups.get(0).failure()).hasMessageStartingWith(sentence(1, 2));
  }

  @Test
  void aThirdRankOfWhichBothEndsAreSilentTellsOfThemAfterTheHeartbeatLimit() throws Exception {
    Duration limit = groups.get(0).config().heartbeatLimit();
    long start = System.nanoTime();
    assertThat(callOf(0, 2, 1).get()).hasMessageStartingWith(sentence(2, 1));
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThanOrEqualTo(limit);
  }

  @Test
  void aThirdRankDoesNotWaitForEndsThatClose() throws Exception {
    Duration limit = groups.get(0).config().heartbeatLimit();
    List<Future<?>> closing = new ArrayList<>();
    for (int end : List.of(1, 2)) {
      CollectiveGroup group = groups.get(end);
      closing.add(threads.submit(() -> group.close()));
    }
    Thread.sleep(100);
    long start = System.nanoTime();
    assertThat(callOf(0, 2, 1).get()).hasMessageStartingWith(sentence(2, 1));
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(limit);
    for (Future<?> close : closing) {
      close.get();
    }
  }

  @Test
  void aLinkThatBreaksBetweenCallsFailsTheGroupOnAllMembersAndTheDriver() {
    LinkLoss links = gate(1).failures().links();
    BrokenLinkException broke = new BrokenLinkException(BROKE, 2, 1);
    links.look(null);
    await()
        .atMost(Duration.ofSeconds(5))
        .until(
            () -> {
              links.look(broke);
              return groups.get(0).failure() != null && driver.failure() != null;
            });
    assertThat(groups.get(0).failure()).hasMessageStartingWith(sentence(2, 1));
    assertThat(groups.get(1).failure()).hasMessageStartingWith(sentence(2, 1));
    assertThat(driver.failure()).hasMessageStartingWith(sentence(2, 1));
    assertThat(groups.get(1).health().failure()).startsWith(sentence(2, 1));
  }

  @Test
  void aLinkThatEndsWithTheGroupIsNoFailure() throws Exception {
    Future<?> closing = threads.submit(() -> groups.get(2).close());
    Thread.sleep(100);
    LinkLoss links = gate(1).failures().links();
    long start = System.nanoTime();
    while (System.nanoTime() - start < Duration.ofMillis(1500).toNanos()) {
      links.look(new BrokenLinkException(BROKE, 2, 1));
      Thread.sleep(50);
    }
    assertThat(groups.get(1).failure()).isNull();
    groups.get(1).close();
    groups.get(0).close();
    closing.get();
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
