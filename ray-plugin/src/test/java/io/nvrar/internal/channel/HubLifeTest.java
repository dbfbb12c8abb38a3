package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.Collective;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.LastCall;
import io.nvrar.OwnThreads;
import io.nvrar.PeerLostException;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.Forks;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The others still need the hub when rank 0 has left. */
@Tag("slow")
class HubLifeTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();

  @AfterEach
  void nothingStays() {
    threads.shutdownNow();
    forks.close();
    await().atMost(Duration.ofSeconds(5)).untilAsserted(OwnThreads::assertNone);
  }

  private static GroupConfig impatient() {
    return Members.config().joinTimeout(Duration.ofSeconds(3)).build();
  }

  @Test
  void aLossIsStillKnownAfterRankZeroGaveUpWaitingForTheOthersToClose() throws Exception {
    // As long as a new JVM may take to join where other tests run, and the wait for the others.
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(10)).build();
    GroupTicket ticket = Groups.createTicket("hub", 3, config, Members.HOST);
    ForkedMember victim = forks.add(ForkedMember.join(ticket, 2, "idle"));
    Future<CollectiveGroup> joining = threads.submit(() -> Groups.join(ticket, 0));
    try (GroupObserver observer = Groups.observe(ticket);
        CollectiveGroup one = Groups.join(ticket, 1)) {
      joining.get().close();
      assertThat(one.health().ranks().get(0).closed()).isTrue();
      assertThat(one.health().healthy()).isTrue();
      victim.kill();
      await().atMost(Duration.ofSeconds(1)).until(() -> !one.health().healthy());
      assertThatThrownBy(one::throwIfFailed)
          .isInstanceOfSatisfying(
              PeerLostException.class, lost -> assertThat(lost.lostRank()).isEqualTo(2));
      await().atMost(Duration.ofSeconds(1)).until(() -> observer.failure() != null);
      assertThat(observer.failure())
          .isInstanceOfSatisfying(
              PeerLostException.class, lost -> assertThat(lost.lostRank()).isEqualTo(2))
          .message()
          .as("nobody can say any more what the ranks do")
          .doesNotContain("made no call");
    }
  }

  @Test
  void theDriverStillReachesTheOthersAndThePortIsFree() throws Exception {
    GroupTicket ticket = Groups.createTicket("hub", 2, impatient(), Members.HOST);
    int port = OpenTicket.of(ticket).port();
    Future<CollectiveGroup> joining = threads.submit(() -> Groups.join(ticket, 0));
    try (GroupObserver observer = Groups.observe(ticket);
        CollectiveGroup one = Groups.join(ticket, 1)) {
      joining.get().close();
      GroupConfig samePort = Members.config().rendezvousPort(port).build();
      Groups.discardTicket(Groups.createTicket("next", 2, samePort, Members.HOST));
      observer.destroy();
      assertThat(one.isClosed()).isTrue();
      assertThat(observer.failure()).isNull();
    }
  }

  @Test
  void healthSaysWhatEachRankDoesAndWhoHasClosed() throws Exception {
    try (Members members = Members.join("health", 2, impatient())) {
      members.onAll(CollectiveGroup::barrier);
      Future<?> waiting = threads.submit(() -> members.rank(0).barrier());
      await()
          .untilAsserted(
              () ->
                  assertThat(members.rank(1).health().ranks().get(0).lastCall())
                      .satisfies(
                          call -> {
                            assertThat(call).hasToString("barrier #2, running");
                            assertThat(call.collective()).isEqualTo(Collective.BARRIER);
                            assertThat(call.sequence()).isEqualTo(2);
                            assertThat(call.state()).isEqualTo(LastCall.State.RUNNING);
                            assertThat(call.nanos()).isPositive();
                          }));
      assertThat(members.rank(1).health())
          .satisfies(
              health -> {
                assertThat(health.healthy()).isTrue();
                assertThat(health.failure()).isNull();
                assertThat(health.ranks().get(0).sequence()).isEqualTo(2);
                assertThat(health.ranks().get(0).silentMillis()).isBetween(0L, 2000L);
                assertThat(health.ranks().get(1).lastCall()).hasToString("barrier #1, done");
                assertThat(health.ranks().get(1).pid()).isEqualTo(ProcessHandle.current().pid());
              });
      members.rank(1).abort("enough");
      assertThat(Members.failureOf(waiting)).hasMessageContaining("enough");
      assertThat(members.rank(0).health().failure()).contains("aborted group 'health': enough");
      members.rank(0).close();
      assertThat(members.rank(0).health().ranks().get(0).lastCall().toString())
          .startsWith("barrier #2");
    }
  }
}
