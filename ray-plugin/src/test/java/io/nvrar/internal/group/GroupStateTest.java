package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.group.GroupState.Fact;
import io.nvrar.internal.wire.Failure;
import org.junit.jupiter.api.Test;

class GroupStateTest {
  private static final Failure FAILURE = Failure.of(Failure.Kind.ABORTED, "of a test");

  private final GroupState open = new GroupState().with(Fact.FORMED);
  private final GroupState failed = open.failed(FAILURE, null);

  @Test
  void aMemberThatClosesWhileItJoinsIsFormedOnceAllAreConnected() {
    GroupState closing = new GroupState().callsEnd(false);
    assertThat(closing.isClosing()).isTrue();
    assertThat(closing.has(Fact.FORMED)).isFalse();
    GroupState formed = closing.with(Fact.FORMED);
    assertThat(formed.has(Fact.FORMED)).isTrue();
    assertThat(formed.isClosing()).isTrue();
  }

  @Test
  void aMemberThatLeavesByItselfIsClosedWhenItsUserClosesItAlsoWhenItIsFreed() {
    GroupState freed = failed.callsEnd(true).ended().freed();
    assertThat(freed.isClosing()).isTrue();
    assertThat(freed.isClosed()).isFalse();
    GroupState closed = freed.callsEnd(false);
    assertThat(closed.isClosed()).isTrue();
    assertThat(closed.isClosedFirst()).isFalse();
    assertThat(closed.isFreed()).isTrue();
  }

  @Test
  void aMemberThatIsClosedDoesNotLeaveByItself() {
    assertThat(failed.callsEnd(false).callsEnd(true).isClosed()).isTrue();
  }

  @Test
  void aCloseInOrderStaysOneWhenTheGroupFailsAfterIt() {
    GroupState closed = open.callsEnd(false).failed(FAILURE, null);
    assertThat(closed.hasFailed()).isTrue();
    assertThat(closed.callsEnd(false).isClosedFirst()).isTrue();
  }

  @Test
  void aCallThatWasCutShortStaysSoWhenItsUserClosesAgain() {
    GroupState cut = open.callsEnd(false).cutShort().ended().callsEnd(false);
    assertThat(cut.isCutShort()).isTrue();
    assertThat(cut.isClosedFirst()).isTrue();
    assertThat(cut.isClosed()).isTrue();
  }

  @Test
  void aMemberWhoseChannelEndsTakesNoCallsAndIsNotClosed() {
    GroupState ended = open.ended();
    assertThat(ended.isClosing()).isTrue();
    assertThat(ended.isClosed()).as("nobody has closed it").isFalse();
    assertThat(ended.callsEnd(false).isClosed()).isTrue();
    assertThat(ended.isEnded()).isTrue();
    assertThat(ended.isFreed()).isFalse();
  }

  @Test
  void onlyTheFirstFailureCountsAndNoneAfterTheEndOrACutCall() {
    Failure second = Failure.of(Failure.Kind.ABORTED, "another");
    assertThat(failed.failed(second, null)).isSameAs(failed);
    assertThat(open.ended().failed(second, null).hasFailed()).isFalse();
    assertThat(open.callsEnd(false).cutShort().failed(second, null).hasFailed()).isFalse();
  }

  @Test
  void noTransitionLeadsBack() {
    assertThat(open.ended().freed().ended().isFreed()).isTrue();
    assertThat(failed.callsEnd(false).cutShort().isCutShort()).isFalse();
    assertThat(failed.callsEnd(true).cutShort().isCutShort()).isFalse();
  }

  @Test
  void whatHarmsAnyFurtherCallIsSeenAtOnce() {
    assertThat(open.isUnharmed()).isTrue();
    assertThat(failed.isUnharmed()).isFalse();
    assertThat(open.callsEnd(false).isUnharmed()).isFalse();
    assertThat(open.ended().isUnharmed()).isFalse();
    assertThat(open.withClosed(1, 7).isUnharmed()).isFalse();
    assertThat(open.with(Fact.DRIVEN).isUnharmed()).isTrue();
  }

  @Test
  void aTransitionLeavesTheSnapshotBeforeItAsItWas() {
    open.withClosed(1, 7).callsEnd(false).ended();
    assertThat(open.closedRanks().areNone()).isTrue();
    assertThat(open.isClosing()).isFalse();
    assertThat(open.isUnharmed()).isTrue();
  }
}
