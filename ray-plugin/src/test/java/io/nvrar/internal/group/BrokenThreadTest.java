package io.nvrar.internal.group;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.OwnThreads;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.channel.RankZeroView;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** An error ends a thread that a group depends on. */
class BrokenThreadTest {
  private static final GroupConfig CONFIG = Members.config().build();

  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void nothingStaysBehind() {
    threads.shutdownNow();
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);
  }

  @Test
  void theControlThreadTellsItsListenerAndEndsWhateverIsThrown() throws Exception {
    GroupTicket given = Groups.createTicket("broken", 1, CONFIG, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    FramedChannel framed =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.OBSERVER, 0)
            .dial(Duration.ofSeconds(5));
    List<Throwable> broken = new CopyOnWriteArrayList<>();
    AtomicInteger ends = new AtomicInteger();
    Error thrown = new StackOverflowError("as by a deep recursion");
    new ControlChannel(framed, ticket.spec())
        .start(
            "nvrar-broken",
            new ControlChannel.Listener() {
              @Override
              public void received(Message message) {}

              @Override
              public void lost(String why) {}

              @Override
              public long tick() {
                throw thrown;
              }

              @Override
              public void broken(Throwable e) {
                broken.add(e);
                if (broken.size() < 3) {
                  throw new OutOfMemoryError("still");
                }
              }

              @Override
              public void ended() {
                if (ends.incrementAndGet() < 3) {
                  throw new OutOfMemoryError("still");
                }
              }
            });
    await().until(() -> ends.get() == 3);
    assertThat(broken).containsExactly(thrown, thrown, thrown);
    assertThat(framed.channel().isOpen()).isFalse();
    Groups.discardTicket(given);
  }

  @Test
  void aHubThatAnErrorEndsTellsAllPeersWhy() throws Exception {
    GroupTicket ticket = Groups.createTicket("broken", 2, CONFIG, Members.HOST);
    Future<CollectiveGroup> other = threads.submit(() -> Members.join(ticket, 1));
    try (GroupObserver observer = Groups.observe(ticket);
        CollectiveGroup zero = Members.join(ticket, 0);
        CollectiveGroup one = other.get()) {
      requireNonNull(((MemberGroup) zero).hub())
          .show(
              new RankZeroView() {
                @Override
                public String activities() {
                  throw new NoClassDefFoundError("of an update that replaced the jar");
                }

                @Override
                public String flightRecord(boolean isRankZeroLost) {
                  throw new NoClassDefFoundError("of an update that replaced the jar");
                }
              });
      await()
          .untilAsserted(
              () ->
                  assertThat(List.of(zero, one))
                      .allSatisfy(group -> assertReason(group.failure())));
      await().untilAsserted(() -> assertReason(observer.failure()));
    }
  }

  @Test
  void aHubThatAnErrorEndsWhileItTellsAFailureTellsItToAll() throws Exception {
    assertThat(seenByTheDriver(() -> new NoClassDefFoundError("of an update")))
        .hasMessageContaining("aborted group 'broken': by a test");
  }

  @Test
  void aHubWithoutMemoryWhileItTellsAFailureSaysWhyItEnded() throws Exception {
    assertThat(seenByTheDriver(() -> new OutOfMemoryError("of a test")))
        .hasMessageContaining("was ended by java.lang.OutOfMemoryError");
  }

  /** What an observer learns of an abort if the hub's look at the flight record throws. */
  private @Nullable CollectiveException seenByTheDriver(Supplier<Error> thrown) throws Exception {
    GroupTicket ticket = Groups.createTicket("broken", 2, CONFIG, Members.HOST);
    Future<CollectiveGroup> other = threads.submit(() -> Members.join(ticket, 1));
    try (GroupObserver observer = Groups.observe(ticket);
        CollectiveGroup zero = Members.join(ticket, 0);
        CollectiveGroup one = other.get()) {
      requireNonNull(((MemberGroup) zero).hub())
          .show(
              new RankZeroView() {
                @Override
                public String activities() {
                  return "";
                }

                @Override
                public String flightRecord(boolean isRankZeroLost) {
                  if (!isRankZeroLost) { // as it is asked for a failure
                    throw thrown.get();
                  }
                  return "";
                }
              });
      one.abort("by a test");
      await().until(() -> observer.failure() != null);
      return observer.failure();
    }
  }

  @Test
  void anErrorAfterAFailureStillEndsTheGroupsThatTheDriverCannotReachAnyMore() {
    GroupTicket ticket = Groups.createTicket("broken", 1, CONFIG, Members.HOST);
    try (CollectiveGroup parent = Members.join(ticket, 0);
        CollectiveGroup child = parent.newGroup(0).orElseThrow()) {
      Member member = ((MemberGroup) parent).member();
      member.setDriven();
      parent.abort("by a test");
      assertThat(child.failure()).as("a group that exists survives that").isNull();
      member.broken(new StackOverflowError("of a test"));
      await().until(() -> child.failure() != null);
      assertThat(child.failure()).hasMessageContaining("of a test");
      assertThat(parent.failure()).hasMessageContaining("by a test");
    }
  }

  private static void assertReason(@Nullable CollectiveException failure) {
    assertThat(failure)
        .hasMessageMatching(
            String.format(
                Locale.ROOT,
                "the rendezvous of group 'broken' in rank 0 \\(pid %d on host .*\\) was ended by java.lang.NoClassDefFoundError: of an update.*",
                ProcessHandle.current().pid()));
  }
}
