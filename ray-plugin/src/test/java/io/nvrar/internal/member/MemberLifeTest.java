package io.nvrar.internal.member;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class MemberLifeTest {
  private final Monitor monitor = new Monitor();
  private final MemberLife life = new MemberLife(monitor);

  @Test
  void aMemberThatClosesWhileItJoinsIsReadyOnceAllAreConnected() {
    life.endCalls(false, () -> false);
    assertThat(life.isClosing()).isTrue();
    assertThat(life.isReady()).isFalse();
    life.allAreConnected();
    assertThat(life.isReady()).isTrue();
    assertThat(life.isClosing()).isTrue();
  }

  @Test
  void aMemberThatLeavesByItselfIsClosedWhenItsUserClosesItAlsoWhenItIsFreed() {
    life.allAreConnected();
    assertThat(life.endCalls(true, () -> true)).isTrue();
    life.ended();
    life.freed();
    assertThat(life.isClosing()).isTrue();
    assertThat(life.isClosed()).isFalse();
    life.endCalls(false, () -> true);
    assertThat(life.isClosed()).isTrue();
    assertThat(life.isClosedFirst()).isFalse();
    assertThat(life.isFreed()).isTrue();
  }

  @Test
  void aMemberThatIsClosedDoesNotLeaveByItself() {
    life.endCalls(false, () -> true);
    life.endCalls(true, () -> true);
    assertThat(life.isClosed()).isTrue();
  }

  @Test
  void aCloseInOrderStaysOneWhenTheGroupFailsAfterIt() {
    life.endCalls(false, () -> false);
    assertThat(life.endCalls(false, () -> true)).isTrue();
    assertThat(life.isClosedFirst()).isTrue();
  }

  @Test
  void aCallThatWasCutShortStaysSoWhenItsUserClosesAgain() {
    life.endCalls(false, () -> false);
    life.cutShort();
    life.ended();
    life.endCalls(false, () -> false);
    assertThat(life.isCutShort()).isTrue();
    assertThat(life.isClosedFirst()).isTrue();
    assertThat(life.isClosed()).isTrue();
  }

  @Test
  void aMemberWhoseChannelEndsClosesWithoutHavingBeenClosedFirst() {
    life.allAreConnected();
    life.ended();
    assertThat(life.isClosing()).isTrue();
    assertThat(life.isClosed()).isTrue();
    assertThat(life.isClosedFirst()).isFalse();
    assertThat(life.isEnded()).isTrue();
    assertThat(life.isFreed()).isFalse();
  }

  @Test
  void whoeverWaitsForThePhaseIsWoken() throws Exception {
    CompletableFuture<Boolean> freed =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return monitor.await(
                    life::isFreed, System.nanoTime() + TimeUnit.SECONDS.toNanos(20));
              } catch (InterruptedException e) {
                return false;
              }
            });
    life.ended();
    life.freed();
    assertThat(freed.get(5, TimeUnit.SECONDS)).isTrue();
  }
}
