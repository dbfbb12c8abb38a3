package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.GroupHealth;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.ray.api.id.ActorId;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class GroupRegistryTest {

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final GroupRegistry registry = new GroupRegistry();
  private final ActorId actor = ActorId.fromRandom();
  private final ActorId other = ActorId.fromRandom();

  @AfterEach
  void close() {
    threads.shutdownNow();
    for (ActorId id : new ActorId[] {actor, other}) {
      if (registry.find(id, "tp") != null) {
        registry.destroy(id, "tp");
      }
    }
  }

  @Test
  void actorsOfOneProcessHaveGroupsOfTheSameNameApart() {
    join(actor, "tp");
    assertThat(registry.find(other, "tp")).isNull();
    join(other, "tp");
    assertThat(registry.get(other, "tp")).isNotSameAs(registry.get(actor, "tp"));
  }

  @Test
  void aLiveGroupKeepsItsName() {
    join(actor, "tp");
    CollectiveGroup first = registry.get(actor, "tp");
    assertThatThrownBy(() -> join(actor, "tp"))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("'tp'");
    assertThat(registry.get(actor, "tp")).isSameAs(first);
    assertThat(first.isClosed()).isFalse();
  }

  @Test
  void aClosedOrFailedGroupMakesRoomForItsSuccessor() {
    join(actor, "tp");
    CollectiveGroup closed = registry.get(actor, "tp");
    closed.close();
    assertThat(registry.find(actor, "tp")).isNull();
    join(actor, "tp");
    CollectiveGroup failed = registry.get(actor, "tp");
    failed.abort("a test");
    assertThat(registry.find(actor, "tp")).isSameAs(failed);
    join(actor, "tp");
    assertThat(registry.get(actor, "tp")).isNotSameAs(failed);
    assertThat(failed.isClosed()).isTrue();
  }

  @Test
  void aJoinThatFailsLeavesTheNameFree() {
    assertThatThrownBy(
            () ->
                registry.join(
                    actor,
                    "tp",
                    new byte[1],
                    () -> {
                      throw new IllegalStateException("a test");
                    }))
        .hasMessage("a test");
    join(actor, "tp");
  }

  @Test
  void leavingEndsTheGroupOfItsTicketOnly() {
    byte[] ticket = join(actor, "tp");
    CollectiveGroup group = registry.get(actor, "tp");
    assertThat(registry.leave(actor, "tp", new byte[] {1})).isFalse();
    assertThat(group.isClosed()).isFalse();
    assertThat(registry.leave(actor, "tp", ticket)).isTrue();
    assertThat(group.isClosed()).isTrue();
    assertThat(registry.find(actor, "tp")).isNull();
  }

  @Test
  void aLeaveThatOvertakesItsJoinIsObeyedByIt() {
    byte[] ticket = ticket("tp");
    assertThat(registry.leave(actor, "tp", ticket)).isFalse();
    assertThatThrownBy(() -> join(actor, "tp", ticket))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the driver gave up group 'tp' before this actor had joined it");
    assertThat(registry.find(actor, "tp")).isNull();
    join(actor, "tp");
  }

  @Test
  void aLeaveInTheMidstOfItsJoinEndsWhatThatHasMade() throws Exception {
    byte[] ticket = ticket("tp");
    CountDownLatch isJoining = new CountDownLatch(1);
    CountDownLatch mayJoin = new CountDownLatch(1);
    AtomicReference<@Nullable CollectiveGroup> made = new AtomicReference<>();
    Future<?> join =
        threads.submit(
            () ->
                registry.join(
                    actor,
                    "tp",
                    ticket,
                    () -> {
                      isJoining.countDown();
                      await(mayJoin);
                      CollectiveGroup group = Groups.join(GroupTicket.of(ticket), 0);
                      made.set(group);
                      return group;
                    }));
    await(isJoining);
    assertThat(registry.leave(actor, "tp", ticket)).isFalse();
    mayJoin.countDown();
    assertThatThrownBy(() -> join.get(10, TimeUnit.SECONDS))
        .cause()
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the driver gave up group 'tp' before this actor had joined it");
    assertThat(Objects.requireNonNull(made.get()).isClosed()).isTrue();
    assertThat(registry.find(actor, "tp")).isNull();
    join(actor, "tp");
  }

  @Test
  void aLeaveIsOfItsActorOnly() {
    byte[] ticket = ticket("tp");
    assertThat(registry.leave(other, "tp", ticket)).isFalse();
    join(actor, "tp", ticket);
    assertThat(registry.find(actor, "tp")).isNotNull();
  }

  @Test
  void leavesThatNoJoinFollowsDoNotPileUp() {
    byte[] ticket = ticket("tp");
    registry.leave(actor, "tp", ticket);
    for (int i = 0; i < GroupRegistry.LEFT_KEPT; i++) {
      registry.leave(actor, "tp", new byte[] {(byte) i});
    }
    join(actor, "tp", ticket); // the oldest is forgotten
  }

  @Test
  void aGroupThatWaitsToLearnWhyItFailedKeepsNobodyFromTheOthers() throws Exception {
    CountDownLatch isAsked = new CountDownLatch(1);
    CountDownLatch mayAnswer = new CountDownLatch(1);
    CollectiveGroup slow =
        fake(
            () -> {
              isAsked.countDown();
              await(mayAnswer);
              throw new CollectiveException("a test");
            });
    registry.join(actor, "slow", new byte[1], () -> slow);
    join(actor, "tp");
    Future<?> successor =
        threads.submit(() -> registry.join(actor, "slow", new byte[2], () -> fake(() -> {})));
    try {
      await(isAsked);
      assertThat(threads.submit(() -> registry.get(actor, "tp")).get(2, TimeUnit.SECONDS))
          .isNotNull();
    } finally {
      mayAnswer.countDown();
    }
    successor.get(10, TimeUnit.SECONDS);
    assertThat(registry.get(actor, "slow")).isNotSameAs(slow);
  }

  @Test
  void ofTwoThatTakeTheNameOfAFailedGroupOneIsRefused() throws Exception {
    CyclicBarrier both = new CyclicBarrier(2);
    CollectiveGroup failed =
        fake(
            () -> {
              try {
                both.await(10, TimeUnit.SECONDS);
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
              throw new CollectiveException("a test");
            });
    registry.join(actor, "dp", new byte[1], () -> failed);
    List<Future<?>> joins = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      byte[] ticket = {(byte) (2 + i)};
      joins.add(threads.submit(() -> registry.join(actor, "dp", ticket, () -> fake(() -> {}))));
    }
    int refused = 0;
    for (Future<?> join : joins) {
      try {
        join.get(10, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        assertThat(e).cause().hasMessageContaining("already a member of a group named 'dp'");
        refused++;
      }
    }
    assertThat(refused).isEqualTo(1);
  }

  @Test
  void failedGroupsOfOtherNamesAreRememberedAndDoNotPileUp() {
    List<CollectiveGroup> failed = new ArrayList<>();
    for (int i = 0; i < GroupRegistry.FAILED_KEPT + 3; i++) {
      join(actor, "tp-" + i);
      failed.add(registry.get(actor, "tp-" + i));
      failed.get(i).abort("a test");
    }
    join(actor, "tp");
    for (int i = 0; i < failed.size(); i++) {
      CollectiveGroup group = failed.get(i);
      if (i < 3) {
        assertThat(registry.find(actor, "tp-" + i)).isNull();
        Awaitility.await().until(group::isClosed);
      } else {
        assertThat(registry.get(actor, "tp-" + i)).isSameAs(group);
        assertThatThrownBy(group::barrier).hasMessageContaining("a test");
        registry.destroy(actor, "tp-" + i);
      }
    }
  }

  @Test
  void whatOneActorRemembersIsNotForgottenForTheGroupsOfAnother() {
    List<Fake> failed = new ArrayList<>();
    for (ActorId id : new ActorId[] {actor, other}) {
      for (int i = 0; i < GroupRegistry.FAILED_KEPT; i++) {
        failed.add(joinFailed(registry, id, "tp-" + i));
      }
    }
    join(actor, "tp");
    for (int i = 0; i < GroupRegistry.FAILED_KEPT; i++) {
      assertThat(registry.find(actor, "tp-" + i)).isNotNull();
      assertThat(registry.find(other, "tp-" + i)).isNotNull();
    }
    joinFailed(registry, actor, "dp");
    registry.join(actor, "ep", new byte[1], () -> fake(() -> {}));
    join(other, "tp");
    assertThat(registry.find(actor, "tp-0")).isNull();
    assertThat(registry.find(other, "tp-0")).isNotNull();
    Awaitility.await().until(() -> failed.get(0).isClosed);
  }

  @Test
  void aGroupThatCannotBeClosedKeepsNoOtherOpen() {
    List<Fake> failed = new ArrayList<>();
    for (int i = 0; i < GroupRegistry.FAILED_KEPT + 3; i++) {
      Fake group = new Fake();
      registry.join(actor, "tp-" + i, new byte[1], group::group);
      failed.add(group);
    }
    failed.forEach(group -> group.failure = new CollectiveException("a test"));
    failed.get(0).closing =
        () -> {
          throw new IllegalStateException("a test");
        };
    failed.get(1).closing =
        () -> {
          throw new AssertionError("a test");
        };
    join(actor, "tp");
    Awaitility.await().until(() -> failed.get(2).isClosed);
    assertThat(failed.get(3).isClosed).isFalse();
  }

  @Test
  void whatNoThreadCouldCloseIsClosedAtTheNextJoin() {
    AtomicBoolean hasRoom = new AtomicBoolean();
    GroupRegistry crowded =
        new GroupRegistry(
            work ->
                new Thread(work, "nvrar-forget-test") {
                  @Override
                  public synchronized void start() {
                    if (!hasRoom.get()) {
                      throw new OutOfMemoryError("unable to create native thread");
                    }
                    super.start();
                  }
                });
    List<Fake> failed = new ArrayList<>();
    for (int i = 0; i < GroupRegistry.FAILED_KEPT + 1; i++) {
      failed.add(joinFailed(crowded, actor, "tp-" + i));
    }
    crowded.join(actor, "tp", new byte[1], () -> fake(() -> {}));
    assertThat(crowded.find(actor, "tp")).isNotNull();
    assertThat(failed.get(0).isClosed).isFalse();
    hasRoom.set(true);
    crowded.join(actor, "dp", new byte[1], () -> fake(() -> {}));
    Awaitility.await().until(() -> failed.get(0).isClosed);
    assertThat(crowded.find(actor, "tp-0")).isNull();
  }

  @Test
  void aGroupThatIsClosedAsItIsAskedMakesRoom() {
    Fake closing = new Fake();
    closing.throwIfFailed =
        () -> {
          closing.isClosed = true; // by the driver
          throw new IllegalStateException("it is closed");
        };
    registry.join(actor, "dp", new byte[1], closing::group);
    CollectiveGroup next = fake(() -> {});
    registry.join(actor, "dp", new byte[2], () -> next);
    assertThat(registry.get(actor, "dp")).isSameAs(next);
  }

  @Test
  void aGroupThatCannotSayWhetherItHasFailedIsLive() {
    CollectiveGroup confused =
        fake(
            () -> {
              throw new IllegalStateException("a test");
            });
    registry.join(actor, "dp", new byte[1], () -> confused);
    assertThatThrownBy(() -> registry.join(actor, "dp", new byte[2], () -> fake(() -> {})))
        .hasMessageContaining("already a member of a group named 'dp'");
  }

  @Test
  void theStreamOfAGroupThatTheDriverDestroyedIsClosedAtTheNextJoin() {
    byte[] ticket = ticket("tp");
    try (GroupObserver driver = Groups.observe(GroupTicket.of(ticket))) {
      registry.join(actor, "tp", ticket, () -> Groups.joinObserved(GroupTicket.of(ticket), 0, 0));
      DeviceStream stream = registry.get(actor, "tp").stream();
      driver.destroy();
      join(actor, "dp");
      Awaitility.await()
          .untilAsserted(
              () -> assertThatThrownBy(stream::synchronize).hasMessageContaining("closed"));
    }
    registry.destroy(actor, "dp");
  }

  @Test
  void anUnknownGroupsMessageListsTheKnownOnes() {
    assertThatThrownBy(() -> registry.get(actor, "tp"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this actor is not a member of a group named 'tp'; its groups are: none");
    join(actor, "tp");
    assertThatThrownBy(() -> registry.destroy(actor, "dp"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this actor is not a member of a group named 'dp'; its groups are: 'tp'");
  }

  private byte[] join(ActorId id, String name) {
    byte[] ticket = ticket(name);
    join(id, name, ticket);
    return ticket;
  }

  private void join(ActorId id, String name, byte[] ticket) {
    try {
      registry.join(id, name, ticket, () -> Groups.join(GroupTicket.of(ticket), 0));
    } catch (RuntimeException e) {
      Groups.discardTicket(GroupTicket.of(ticket));
      throw e;
    }
  }

  private static byte[] ticket(String name) {
    return Groups.createTicket(name, 1, GroupConfig.defaults(), "127.0.0.1").toBytes();
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(10, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Fake joinFailed(GroupRegistry registry, ActorId id, String name) {
    Fake failed = new Fake();
    failed.failure = new CollectiveException("a test");
    registry.join(id, name, new byte[1], failed::group);
    return failed;
  }

  private static CollectiveGroup fake(Runnable throwIfFailed) {
    Fake fake = new Fake();
    fake.throwIfFailed = throwIfFailed;
    return fake.group();
  }

  /** A group that answers only what a registry asks without waiting, and {@code throwIfFailed}. */
  private static final class Fake {
    Runnable throwIfFailed = () -> {};
    Runnable closing = () -> {};
    volatile boolean isClosed;
    volatile @Nullable CollectiveException failure;

    private final CollectiveGroup group =
        (CollectiveGroup)
            Proxy.newProxyInstance(
                CollectiveGroup.class.getClassLoader(),
                new Class<?>[] {CollectiveGroup.class},
                (proxy, method, arguments) ->
                    switch (method.getName()) {
                      case "throwIfFailed" -> {
                        throwIfFailed.run();
                        yield null;
                      }
                      case "isClosed" -> isClosed;
                      // Not failure(), which decides for all whether a flight record is named.
                      case "health" ->
                          new GroupHealth(failure == null ? null : failure.getMessage(), List.of());
                      case "close" -> {
                        closing.run();
                        isClosed = true;
                        yield null;
                      }
                      case "equals" -> proxy == arguments[0];
                      case "hashCode" -> System.identityHashCode(proxy);
                      case "toString" -> "fake";
                      default -> throw new AssertionError(method + " is not answered");
                    });

    CollectiveGroup group() {
      return group;
    }
  }
}
