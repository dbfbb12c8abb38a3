package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.FlightMention;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.TestBackend;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What is seen, without waiting, of a member whose calls fail after they have returned. That is so
 * on a GPU; here it is only said to be.
 */
class FailureLookTest {
  private static final Duration LIMIT = Duration.ofMillis(1500);

  private GroupTicket given;
  private Member member;
  private CallGate gate;
  private NativeCommunicator communicator;

  @BeforeEach
  void prepare() {
    GroupConfig config = Members.config().heartbeatLimit(LIMIT).build();
    given = Groups.createTicket("look", 2, config, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    FramedChannel framed =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
            .dial(Duration.ofSeconds(5));
    member =
        new Member(
            ticket.spec(),
            ticket.keys(),
            1,
            new ControlChannel(framed, ticket.spec()),
            Members.HOST,
            null);
    member.start();
    communicator = TestBackend.prepare(ticket, 1);
    member.own(communicator, true);
    gate = new CallGate(member, communicator);
    assertThat(gate.awaitsReason()).isFalse();
    assertThat(gate.failure()).isNull();
  }

  @AfterEach
  void leave() {
    member.leave();
    member.awaitFreed(0);
    Groups.discardTicket(given);
  }

  @Test
  void aFailureIsNotKnownBeforeItIsExplained() {
    communicator.abort(); // as a peer's does
    assertThat(gate.awaitsReason()).isTrue();
    assertThat(gate.failure()).isNull();
    member.fail(Failure.of(Failure.Kind.ABORTED, "rank 0 had enough"), false);
    assertThat(gate.awaitsReason()).isFalse();
    assertThat(gate.failure())
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageContaining("rank 0 had enough");
  }

  @Test
  void aFailureThatNobodyExplainsIsWhatTheLibrarySaysOnceTheHubWouldBeSilent() {
    communicator.abort();
    long start = System.nanoTime();
    await().atMost(Duration.ofSeconds(5)).until(() -> !gate.awaitsReason());
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isBetween(LIMIT, LIMIT.multipliedBy(2));
    assertThat(gate.failure()).isExactlyInstanceOf(CollectiveException.class);
    assertThatThrownBy(gate::throwIfFailed)
        .hasMessage(Objects.requireNonNull(gate.failure()).getMessage());
  }

  @Test
  void whatFailsAsTheMemberEndsIsItsClose() {
    communicator.abort();
    member.leave();
    member.awaitFreed(0);
    assertThat(gate.awaitsReason()).isFalse();
    assertThat(gate.failure())
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("group 'look' is closed; rank 1 can make no more calls");
  }

  /** As the thread that completes the stages of a GPU's events looks. */
  @Test
  void whoLooksAllTheTimeDoesNotKeepTheFlightRecordFromBeingNamed() throws Exception {
    try (Members members = Members.join("look-formed", 2, Members.config().build())) {
      MemberGroup group = (MemberGroup) members.rank(0);
      CallGate formed = group.gate();
      Future<RuntimeException> looked =
          members.start(
              () -> {
                while (true) {
                  if (!formed.awaitsReason()) {
                    RuntimeException failure = formed.failure();
                    if (failure != null) {
                      return failure;
                    }
                  }
                }
              });
      long begin = System.nanoTime();
      members.rank(0).abort("enough");
      Throwable thrown = catchThrowable(group::barrier);
      FlightMention.assertAwaited(thrown.getMessage(), begin);
      assertThat(FlightMention.file(thrown.getMessage())).exists();
      assertThat(looked.get(20, TimeUnit.SECONDS)).hasMessage(thrown.getMessage());
    }
  }
}
