package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.PeerLostException;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.Forks;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.TestBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What members hold of a failed group that nobody is left to close. */
@Tag("contract")
@Tag("slow")
class DriverLossTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();
  private final List<CollectiveGroup> members = new ArrayList<>();

  @AfterEach
  void end() {
    forks.close();
    members.forEach(CollectiveGroup::close);
    threads.shutdownNow();
    awaitNothingHeld();
  }

  @Test
  void aLostDriverEndsACallAndTheMembersFreeThemselves() throws Exception {
    ForkedMember driver = joinTwo();
    CollectiveGroup zero = members.get(0);
    try (DeviceBuffer buffer = zero.device().allocate(DataType.FLOAT32, 8)) {
      Future<?> blocked =
          threads.submit(
              () -> {
                zero.allReduce(buffer);
                Members.complete(zero);
              });
      Thread.sleep(200);
      driver.kill();
      assertThat(Members.failureOf(blocked))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageContaining("was lost")
          .hasMessageContaining("allReduce #1 float32[8] SUM");
    }
    awaitNothingHeld();
    for (CollectiveGroup member : members) {
      assertFailedNotClosed(member, "the driver (");
      assertThat(member.health().failure()).contains("was lost");
      assertThat(member.health().ranks()).hasSize(2);
      awaitStream(member); // is the user's until he closes the group
    }
  }

  @Test
  void aDriverThatIsLostAfterAnotherFailureLeavesNothingEither() throws Exception {
    ForkedMember driver = joinTwo();
    members.get(1).abort("a test");
    await().untilAsserted(() -> assertFailedNotClosed(members.get(0), "a test"));
    Thread.sleep(500);
    assertThat(held()).as("the driver will close it").isNotEmpty();
    driver.kill();
    awaitNothingHeld();
    members.forEach(member -> assertFailedNotClosed(member, "a test"));
  }

  @Test
  void aDriverThatDiesBeforeItObservesIsLostToo() throws Exception {
    Duration limit = Duration.ofSeconds(TestBackend.isCuda() ? 5 : 1);
    GroupConfig config = Members.config().joinTimeout(limit).build();
    GroupTicket ticket = Groups.createTicket("driven", 2, config, Members.HOST);
    OpenTicket decoded = OpenTicket.of(ticket);
    new Dialer(decoded.spec(), new Handshake(decoded.keys()), Handshake.Role.OBSERVER, 0)
        .dial(limit)
        .close();
    joinObserved(ticket);
    Thread.sleep(limit.toMillis());
    assertThat(members.get(0).failure()).isNull();
    Duration whole = limit.multipliedBy(2).plus(Coordinator.DRIVER_MARGIN);
    await().atMost(whole.plus(limit)).until(() -> members.get(0).failure() != null);
    awaitNothingHeld();
    String seconds = whole.toSeconds() + " s";
    members.forEach(
        member ->
            assertFailedNotClosed(
                member,
                "group 'driven' was aborted: no driver came to observe it within " + seconds));
  }

  @Test
  void aDriverThatDiesBeforeItObservesAGroupThatHasFailedIsLostToo() throws Exception {
    Duration limit = Duration.ofSeconds(TestBackend.isCuda() ? 5 : 1);
    GroupConfig config = Members.config().joinTimeout(limit).build();
    joinObserved(Groups.createTicket("driven", 2, config, Members.HOST));
    members.get(1).abort("a test");
    Thread.sleep(limit.toMillis());
    assertThat(held()).as("the driver may still come").isNotEmpty();
    await()
        .atMost(limit.multipliedBy(3).plus(Coordinator.DRIVER_MARGIN))
        .untilAsserted(() -> assertThat(held()).isEmpty());
    members.forEach(member -> assertFailedNotClosed(member, "a test"));
  }

  @Test
  void aDriverThatTakesItsTimeToObserveIsNotLost() throws Exception {
    Duration limit = Duration.ofSeconds(TestBackend.isCuda() ? 5 : 1);
    GroupTicket ticket =
        Groups.createTicket("driven", 2, Members.config().joinTimeout(limit).build(), Members.HOST);
    joinObserved(ticket);
    Thread.sleep(limit.multipliedBy(3).toMillis());
    try (GroupObserver observer = Groups.observe(ticket)) {
      assertThat(members.get(0).failure()).isNull();
      observer.destroy();
    }
  }

  @Test
  void aGroupThatWasSplitFromItGoesToo() throws Exception {
    ForkedMember driver = joinTwo();
    Future<CollectiveGroup> other = threads.submit(() -> members.get(0).split(0, 0).orElseThrow());
    CollectiveGroup child = members.get(1).split(0, 0).orElseThrow();
    members.add(other.get());
    members.add(child);
    driver.kill();
    awaitNothingHeld();
    members.forEach(member -> assertFailedNotClosed(member, "was lost"));
  }

  @Test
  void aMemberWithoutRankZeroFreesItselfThoughItHearsOfNoDriverAnyMore() throws Exception {
    ForkedMember zero = forks.add(ForkedMember.create("driven", 2, 5000, "idle"));
    members.add(Groups.joinObserved(zero.ticket(), 1, TestBackend.ordinal(1)));
    zero.expect("JOINED");
    zero.kill();
    awaitNothingHeld();
    assertThat(members.get(0).isClosed()).isFalse();
    assertThatThrownBy(members.get(0)::barrier).isInstanceOf(PeerLostException.class);
  }

  @Test
  void aGroupThatWasSplitFromOneWithoutRankZeroGoesTooThoughItsOwnRankZeroLives() throws Exception {
    ForkedMember zero = forks.add(ForkedMember.create("driven", 2, 5000, "split"));
    members.add(Groups.joinObserved(zero.ticket(), 1, TestBackend.ordinal(1)));
    members.add(members.get(0).split(0, -1).orElseThrow());
    assertThat(members.get(1).rank()).isZero();
    zero.expect("SPLIT");
    zero.kill();
    awaitNothingHeld();
    assertThatThrownBy(members.get(1)::barrier).isInstanceOf(PeerLostException.class);
  }

  @Test
  void whatWasSplitFromAGroupThatHadFailedGoesWhenItsDriverCanBeHeardNoMore() throws Exception {
    ForkedMember zero = forks.add(ForkedMember.create("driven", 3, 5000, "split"));
    GroupTicket ticket = zero.ticket();
    Future<CollectiveGroup> joining =
        threads.submit(() -> Groups.joinObserved(ticket, 1, TestBackend.ordinal(1)));
    members.add(Groups.joinObserved(ticket, 2, TestBackend.ordinal(2)));
    members.add(joining.get());
    Future<CollectiveGroup> splitting =
        threads.submit(() -> members.get(1).split(0, 0).orElseThrow());
    CollectiveGroup alone = members.get(0).split(1, 0).orElseThrow();
    members.add(alone);
    members.add(splitting.get());
    zero.expect("SPLIT");
    members.get(0).abort("a test");
    await().untilAsserted(() -> assertFailedNotClosed(members.get(1), "a test"));
    Members.barrier(alone);
    zero.kill();
    awaitNothingHeld();
    assertFailedNotClosed(alone, "ended with group 'driven': rank 0 (");
  }

  @Test
  void whatWasSplitFromAGroupThatRankZeroHasClosedFreesItselfWhenItHasFailed() throws Exception {
    ForkedMember zero = forks.add(ForkedMember.create("driven", 2, 5000, "split"));
    CollectiveGroup parent = Groups.joinObserved(zero.ticket(), 1, TestBackend.ordinal(1));
    members.add(parent);
    CollectiveGroup child = parent.split(0, -1).orElseThrow();
    members.add(child);
    zero.expect("SPLIT");
    child.abort("a test"); // so that rank 0 closes both
    await().until(() -> parent.health().ranks().get(0).closed());
    zero.kill();
    await()
        .untilAsserted(
            () -> assertThat(held()).noneMatch(name -> name.startsWith("nvrar-driven/0")));
    assertFailedNotClosed(child, "a test");
    assertThat(parent.failure()).isNull();
  }

  @Test
  void whatFreedItselfCanBeClosed() throws Exception {
    ForkedMember driver = joinTwo();
    driver.kill();
    awaitNothingHeld();
    for (CollectiveGroup member : members) {
      member.close();
      assertThat(member.isClosed()).isTrue();
      assertThatThrownBy(member.stream()::synchronize).hasMessageContaining("closed");
      assertThatThrownBy(member::barrier).hasMessageContaining("was lost");
    }
  }

  @Test
  void aMemberThatItsUserClosesIsKeptForHim() throws Exception {
    GroupTicket ticket = Groups.createTicket("mine", 1, Members.config().build(), Members.HOST);
    ForkedMember driver = forks.add(ForkedMember.observe(ticket));
    members.add(Members.join(ticket, 0));
    awaitGreeting(driver);
    driver.kill();
    await().untilAsserted(() -> assertFailedNotClosed(members.get(0), "was lost"));
    Thread.sleep(500);
    assertThat(held()).isNotEmpty();
  }

  /** Joins both here and returns who observes them. */
  private ForkedMember joinTwo() throws Exception {
    GroupTicket ticket = Groups.createTicket("driven", 2, Members.config().build(), Members.HOST);
    ForkedMember driver = forks.add(ForkedMember.observe(ticket));
    joinObserved(ticket);
    awaitGreeting(driver);
    return driver;
  }

  private void joinObserved(GroupTicket ticket) throws Exception {
    Future<CollectiveGroup> zero =
        threads.submit(() -> Groups.joinObserved(ticket, 0, TestBackend.ordinal(0)));
    CollectiveGroup one = Groups.joinObserved(ticket, 1, TestBackend.ordinal(1));
    members.add(zero.get());
    members.add(one);
  }

  private static void awaitGreeting(ForkedMember driver) throws InterruptedException {
    driver.expect("JOINED");
    Thread.sleep(200); // it is on its way
  }

  private static void assertFailedNotClosed(CollectiveGroup member, String why) {
    assertThat(member.isClosed()).isFalse();
    assertThatThrownBy(member::throwIfFailed)
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining(why);
    assertThatThrownBy(member::barrier)
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining(why);
  }

  /** On a GPU it may still have to say what the calls there have come to. */
  private static void awaitStream(CollectiveGroup member) {
    try {
      member.stream().synchronize();
    } catch (CollectiveException e) {
      assertThat(TestBackend.isCuda()).as("a GPU's, as %s", e).isTrue();
      assertThat(e).hasMessageContaining("was lost");
    }
  }

  private static void awaitNothingHeld() {
    await().atMost(Duration.ofSeconds(5)).untilAsserted(() -> assertThat(held()).isEmpty());
  }

  /** The threads and the mapped memory of groups in this process. */
  private static List<String> held() {
    Stream<String> running =
        Thread.getAllStackTraces().keySet().stream()
            .map(Thread::getName)
            .filter(name -> name.startsWith("nvrar-"));
    return Stream.concat(running, TestBackend.mappedSegments().stream()).toList();
  }
}
