package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.OwnThreads;
import io.nvrar.PeerLostException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.Forks;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.RawClient;
import io.nvrar.standalone.TestBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Four members in two halves, of which some are processes of their own. */
@Tag("contract")
@Tag("slow")
class SplitLifeTest {
  private static final int WORLD_SIZE = 4;

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();
  private final List<CollectiveGroup> worlds = new ArrayList<>();
  private final List<CollectiveGroup> halves = new ArrayList<>();

  @AfterEach
  void endAll() throws Exception {
    List<Future<?>> closing = new ArrayList<>();
    for (CollectiveGroup group : halves) {
      closing.add(threads.submit(() -> group.close()));
    }
    for (CollectiveGroup group : worlds) {
      closing.add(threads.submit(() -> group.close()));
    }
    for (Future<?> close : closing) {
      close.get();
    }
    threads.shutdownNow();
    forks.close();
    await().atMost(Duration.ofSeconds(5)).untilAsserted(OwnThreads::assertNone);
  }

  private record Joined(CollectiveGroup world, CollectiveGroup half) {}

  /** Has the ranks of this process join and split. */
  private void join(GroupTicket ticket, int... ranks) throws Exception {
    List<Future<Joined>> joining = new ArrayList<>();
    for (int rank : ranks) {
      joining.add(
          threads.submit(
              () -> {
                CollectiveGroup world = Members.join(ticket, rank);
                return new Joined(world, world.split(rank / 2, 0).orElseThrow());
              }));
    }
    for (Future<Joined> joined : joining) {
      worlds.add(joined.get().world());
      halves.add(joined.get().half());
    }
  }

  private static void sum(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      group.allReduce(buffer);
      Members.complete(group);
    }
  }

  private Future<?> start(CollectiveGroup group) {
    return threads.submit(() -> sum(group));
  }

  private void sumOnBoth(CollectiveGroup one, CollectiveGroup other) throws Exception {
    Future<?> first = start(one);
    sum(other);
    first.get();
  }

  @Test
  void aLostMemberEndsEveryGroupThatHasItAndNoOther() throws Exception {
    GroupTicket ticket =
        Groups.createTicket("lost", WORLD_SIZE, Members.config().build(), Members.HOST);
    ForkedMember victim = forks.add(ForkedMember.join(ticket, 3, "split"));
    join(ticket, 0, 1, 2);
    victim.expect("SPLIT lost/1");
    Future<?> waiting =
        threads.submit(
            () -> {
              while (true) {
                sum(halves.get(2));
              }
            });
    Thread.sleep(200);
    victim.kill();
    assertThat(Members.failureOf(waiting))
        .isInstanceOfSatisfying(
            PeerLostException.class,
            lost -> {
              assertThat(lost.lostRank()).isEqualTo(1); // in the half
              assertThat(lost.pid()).isEqualTo(victim.pid());
            });
    await().until(() -> !worlds.get(0).health().healthy());
    assertThatThrownBy(() -> worlds.get(0).throwIfFailed())
        .isInstanceOfSatisfying(
            PeerLostException.class, lost -> assertThat(lost.lostRank()).isEqualTo(3));
    sumOnBoth(halves.get(0), halves.get(1));
  }

  @Test
  void theLossOfThePlaceWhereTheDriverIsHeardEndsTheChildrenToo() throws Exception {
    ForkedMember hub = forks.add(ForkedMember.create("hub", WORLD_SIZE, 5000, "split"));
    GroupTicket ticket = hub.ticket();
    join(ticket, 1, 2, 3);
    hub.expect("SPLIT hub/0");
    Future<?> waiting = start(halves.get(1)); // rank 3's part is missing
    Thread.sleep(200);
    hub.kill();
    assertThat(Members.failureOf(waiting))
        .isInstanceOfSatisfying(
            PeerLostException.class,
            lost -> {
              assertThat(lost.lostRank()).isEqualTo(-1); // no member of this half
              assertThat(lost.pid()).isEqualTo(hub.pid());
            })
        .hasMessageContaining("group 'hub/1' ended with group 'hub': rank 0 (pid " + hub.pid());
    await().until(() -> !halves.get(0).health().healthy());
    assertThatThrownBy(() -> halves.get(0).throwIfFailed())
        .isInstanceOfSatisfying(
            PeerLostException.class, lost -> assertThat(lost.lostRank()).isEqualTo(0));
  }

  @Test
  void aDriverThatIsKilledTakesTheChildrenWithItAlsoThoseOfAFailedParent() throws Exception {
    GroupTicket ticket =
        Groups.createTicket("driven", WORLD_SIZE, Members.config().build(), Members.HOST);
    ForkedMember driver = forks.add(ForkedMember.observe(ticket));
    join(ticket, 0, 1, 2, 3);
    driver.expect("JOINED");
    worlds.get(0).abort("the parent alone");
    await().until(() -> !worlds.get(3).health().healthy());
    sumOnBoth(halves.get(2), halves.get(3));
    Future<?> waiting = start(halves.get(3));
    Thread.sleep(200);
    driver.kill();
    assertThat(Members.failureOf(waiting))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageContaining(
            "group 'driven/1' ended with group 'driven': group 'driven' was aborted: the driver (pid "
                + driver.pid());
  }

  @Test
  void aGroupThatIsStillBeingCreatedEndsWithItsParent() throws Exception {
    GroupConfig config = Members.config().build();
    GroupTicket ticket = Groups.createTicket("parent", 2, config, Members.HOST);
    Children children = new Children(OpenTicket.of(ticket).spec());
    GroupKeys keys = GroupKeys.random();
    Rendezvous hub = Rendezvous.open("parent/0", 2, config, Members.HOST, id -> keys);
    hub.start(() -> {});
    Joining.Parent parent = new Joining.Parent(children, new int[] {3, 1});
    Future<?> waiting = threads.submit(() -> Joining.join(hub.spec(), keys, 0, 0, hub, parent));
    Thread.sleep(300);
    long start = System.nanoTime();
    children.parentFailed(Failure.timeout("ranks 1, 2 have not come", 1, 2));
    assertThat(Members.failureOf(waiting))
        .isInstanceOfSatisfying(
            CollectiveTimeoutException.class,
            timeout -> assertThat(timeout.missingRanks()).containsExactly(1)) // in the new group
        .hasMessageContaining(
            "group 'parent/0' ended with group 'parent': ranks 1, 2 have not come");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
    Groups.discardTicket(ticket);
  }

  @Test
  void whoFindsAPeerGoneWhileTheDriverDestroysAllSaysThatAndNotWhatIsMissing() throws Exception {
    GroupConfig config = Members.config().build();
    GroupTicket given = Groups.createTicket("parent", 2, config, Members.HOST);
    Children children = new Children(OpenTicket.of(given).spec());
    GroupKeys keys = GroupKeys.random();
    Rendezvous hub = Rendezvous.open("parent/0", 2, config, Members.HOST, id -> keys);
    hub.start(() -> {});
    OpenTicket ticket = OpenTicket.of(hub.spec(), keys);
    Joining.Parent parent = new Joining.Parent(children, new int[] {0, 1});
    Future<?> joining = threads.submit(() -> Joining.join(hub.spec(), keys, 0, 0, hub, parent));
    try (FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket))) {
      byte[] descriptor;
      try (NativeCommunicator gone = TestBackend.prepare(ticket, 1)) {
        descriptor = gone.descriptor();
      }
      one.send(new Message.Descriptor(descriptor));
      hear(one, Message.Members.class, new ArrayList<>());
      Thread.sleep(100); // it looks for that memory now, and then for a moment for a reason
      children.destroy();
      assertThat(Members.failureOf(joining))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("destroyed by the driver");
    }
    Groups.discardTicket(given);
  }

  @Test
  void aMemberThatClosesInASplitKeepsTheOthersNotWaiting() throws Exception {
    GroupTicket given = Groups.createTicket("parent", 3, Members.config().build(), Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    // Rank 1 agrees to be rank 0 of the new group, and never opens its rendezvous.
    try (FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket));
        NativeCommunicator prepared = TestBackend.prepare(ticket, 1)) {
      Future<CollectiveGroup> zero = threads.submit(() -> Members.join(given, 0));
      Future<CollectiveGroup> two = threads.submit(() -> Members.join(given, 2));
      one.send(new Message.Descriptor(prepared.descriptor()));
      one.send(new Message.Connected());
      worlds.add(zero.get());
      worlds.add(two.get());
      one.send(new Message.Split(1, 0, -1, 0));
      Future<?> closed = threads.submit(() -> zero.get().split(0, 0));
      Future<?> waiting = threads.submit(() -> two.get().split(0, 0));
      Thread.sleep(500);
      long start = System.nanoTime();
      zero.get().close();
      assertThat(Members.failureOf(closed))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("group 'parent' is closed; rank 0 can make no more calls");
      assertThat(Members.failureOf(waiting))
          .hasMessageMatching(
              "rank 0 \\(.*\\) closed group 'parent' in split #1 of group 'parent', .*");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
    }
  }

  @Test
  void childrenOutliveAParentThatHasFailedAndIsClosed() throws Exception {
    GroupTicket ticket =
        Groups.createTicket("parent", WORLD_SIZE, Members.config().build(), Members.HOST);
    join(ticket, 0, 1, 2, 3);
    worlds.get(0).abort("the parent alone");
    await().until(() -> worlds.stream().noneMatch(world -> world.health().healthy()));
    worlds.get(0).close(); // and with it the hub
    Thread.sleep(300);
    sumOnBoth(halves.get(0), halves.get(1));
    sumOnBoth(halves.get(2), halves.get(3));
  }

  @Test
  void destroyClosesTheChildrenInOrder() throws Exception {
    GroupTicket ticket =
        Groups.createTicket("destroy", WORLD_SIZE, Members.config().build(), Members.HOST);
    try (GroupObserver observer = Groups.observe(ticket)) {
      join(ticket, 0, 1, 2, 3);
      observer.destroy();
      await().until(() -> halves.stream().allMatch(CollectiveGroup::isClosed));
      assertThatThrownBy(() -> sum(halves.get(0)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "group 'destroy/0' was destroyed by the driver; rank 0 can make no more calls");
      assertThat(observer.failure()).isNull();
    }
  }

  /** Adds what comes until there is a message of this kind, or a failure. */
  private static void hear(
      FramedChannel channel, Class<? extends Message> kind, List<Message> heard) {
    await()
        .pollInterval(Duration.ofMillis(5))
        .until(
            () -> {
              channel.receive(heard::add);
              return heard.stream().anyMatch(m -> kind.isInstance(m) || m instanceof Failure);
            });
  }

  @Test
  void whoWaitsInASplitHearsOfTheDestructionAloneAlsoWhenAnotherClosesFirst() throws Exception {
    GroupTicket given = Groups.createTicket("parent", 2, Members.config().build(), Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    try (FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket));
        GroupObserver observer = Groups.observe(given);
        NativeCommunicator prepared = TestBackend.prepare(ticket, 1)) {
      Future<CollectiveGroup> zero = threads.submit(() -> Members.join(given, 0));
      one.send(new Message.Descriptor(prepared.descriptor()));
      one.send(new Message.Connected());
      worlds.add(zero.get());
      one.send(new Message.Split(1, 0, -1, 0));
      Future<?> destroying = threads.submit(observer::destroy);
      List<Message> heard = new ArrayList<>();
      hear(one, Message.Closing.class, heard);
      one.send(new Message.Closing(1, 0, true));
      hear(one, Message.AllClosed.class, heard);
      one.send(new Message.Goodbye());
      assertThat(heard).hasAtLeastOneElementOfType(Message.Destroy.class);
      assertThat(heard).doesNotHaveAnyElementsOfTypes(Failure.class);
      destroying.get();
    }
  }

  @Test
  void aGroupThatIsDestroyedWhileItIsSplitEndsAtOnceWhereverItWas() throws Exception {
    GroupConfig config = Members.config().build();
    int step = TestBackend.isCuda() ? 200 : 20; // a group on GPUs takes longer to make
    for (int microseconds = 0; microseconds < 2000; microseconds += step) {
      GroupTicket ticket = Groups.createTicket("alone", 1, config, Members.HOST);
      try (GroupObserver observer = Groups.observe(ticket)) {
        CollectiveGroup world = Members.join(ticket, 0);
        Future<?> splitting =
            threads.submit(
                () -> {
                  try (CollectiveGroup half = world.split(0, 0).orElseThrow()) {
                    while (true) {
                      half.barrier();
                    }
                  }
                });
        LockSupport.parkNanos(microseconds * 1000L);
        long start = System.nanoTime();
        observer.destroy();
        assertThat(Members.failureOf(splitting)).hasMessageContaining("destroyed by the driver");
        world.close();
        assertThat(Duration.ofNanos(System.nanoTime() - start))
            .as("destroyed after %d us", microseconds)
            .isLessThan(Duration.ofSeconds(4));
      }
    }
  }

  @Test
  void whatTheDriverAbortsIncludesTheChildren() throws Exception {
    GroupTicket ticket =
        Groups.createTicket("all", WORLD_SIZE, Members.config().build(), Members.HOST);
    try (GroupObserver observer = Groups.observe(ticket)) {
      join(ticket, 0, 1, 2, 3);
      Future<?> waiting = start(halves.get(0));
      Thread.sleep(200);
      observer.abort("the user gave up");
      assertThat(Members.failureOf(waiting))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageContaining("the user gave up");
    }
  }
}
