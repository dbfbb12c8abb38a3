package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.group.GroupState.Fact;
import io.nvrar.internal.wire.Failure;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class GroupAgentTest {
  private static final Failure FAILURE = Failure.of(Failure.Kind.ABORTED, "of a test");
  private static final int MEETINGS = 20_000;

  @Test
  void anAgentThatBreaksDownTakesTheSpareStateOnceAndKeepsAnEarlierFailure() {
    GroupAgent agent = new GroupAgent(0);
    Throwable by = new StackOverflowError("of a test");
    agent.change(state -> state.with(Fact.DRIVEN));
    assertThat(agent.breakDown(FAILURE, by)).isTrue();
    assertThat(agent.breakDown(FAILURE, by)).as("called again").isTrue();
    assertThat(agent.state().cause()).isSameAs(by);
    assertThat(agent.state().has(Fact.DRIVEN)).isTrue();
    GroupState broken = agent.state();
    agent.change(GroupState::ended);
    assertThat(broken.isEnded()).as("the spare was published").isFalse();

    GroupAgent other = new GroupAgent(0);
    other.change(state -> state.failed(Failure.of(Failure.Kind.ABORTED, "earlier"), null));
    assertThat(other.breakDown(FAILURE, by)).isFalse();
    assertThat(other.state().cause()).isNull();
  }

  /** Otherwise the close would announce a number of calls that lacks one. */
  @Test
  void eitherTheCallFindsTheCloseOrTheCloseFindsTheCall() throws Exception {
    GroupAgent[] agents = new GroupAgent[MEETINGS];
    boolean[] begun = new boolean[MEETINGS];
    boolean[] found = new boolean[MEETINGS];
    for (int i = 0; i < MEETINGS; i++) {
      agents[i] = new GroupAgent(0);
    }
    CyclicBarrier meeting = new CyclicBarrier(2);
    ExecutorService threads = Executors.newFixedThreadPool(2);
    Future<?> calls =
        threads.submit(
            () -> {
              for (int i = 0; i < MEETINGS; i++) {
                GroupState seen = agents[i].state();
                meet(meeting, i);
                begun[i] = !seen.isClosing() && agents[i].begin(seen);
              }
            });
    Future<?> closes =
        threads.submit(
            () -> {
              for (int i = 0; i < MEETINGS; i++) {
                meet(meeting, i);
                agents[i].change(state -> state.callsEnd(false));
                found[i] = agents[i].hasCaller();
              }
            });
    calls.get(60, TimeUnit.SECONDS);
    closes.get(60, TimeUnit.SECONDS);
    threads.shutdown();
    int missed = 0;
    int begunAtAll = 0;
    for (int i = 0; i < MEETINGS; i++) {
      missed += begun[i] && !found[i] ? 1 : 0;
      begunAtAll += begun[i] ? 1 : 0;
      assertThat(agents[i].hasCaller())
          .as("a call that has not begun is not counted")
          .isEqualTo(begun[i]);
    }
    assertThat(missed).isZero();
    assertThat(begunAtAll).as("otherwise they never met").isBetween(1, MEETINGS - 1);
  }

  /** Every hundredth time together, and from there on as it comes. */
  private static void meet(CyclicBarrier meeting, int time) {
    if (time % 100 == 0) {
      try {
        meeting.await(20, TimeUnit.SECONDS);
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }
  }

  @Test
  void whoeverWaitsForAStateIsWoken() throws Exception {
    GroupAgent agent = new GroupAgent(0);
    CompletableFuture<Boolean> freed =
        CompletableFuture.supplyAsync(
            () ->
                agent.awaitState(
                    GroupState::isFreed, System.nanoTime() + TimeUnit.SECONDS.toNanos(20)));
    agent.change(GroupState::ended);
    agent.change(GroupState::freed);
    assertThat(freed.get(5, TimeUnit.SECONDS)).isTrue();
  }
}
