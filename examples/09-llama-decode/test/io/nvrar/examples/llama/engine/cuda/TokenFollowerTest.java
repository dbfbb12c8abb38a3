package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.cuda.kernels.TokenRing;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How many steps are enqueued, and which tokens are delivered, without a GPU. */
final class TokenFollowerTest {
  private static final int END = 99;

  private final List<String> heard = new ArrayList<>();

  @Test
  void allTokensAreDeliveredAndTwoBlocksAreAhead() {
    Fake steps = new Fake(20, 3);
    int[] lengths = {100, 7};
    new TokenFollower(continuation(20, 3), lengths).follow(steps, this::hear);
    assertThat(heard)
        .hasSize(23)
        .startsWith("0:0", "1:1000", "0:1", "1:1001", "0:2", "1:1002", "0:3");
    assertThat(lengths).containsExactly(120, 10);
    // As many as are wanted, and behind block i block i + 2.
    assertThat(steps.enqueued)
        .containsExactly("8 to 108", "8 to 116", "at 8: 4 to 120", "at 16: 0 to 120");
  }

  @Test
  void anEndTokenEndsARowAndWhatFollowsItIsIdle() {
    Fake steps = new Fake(40, 3);
    steps.endAt = 9;
    int[] lengths = {100, 7};
    new TokenFollower(continuation(40, 3), lengths).follow(steps, this::hear);
    assertThat(heard).hasSize(13).endsWith("0:8", "0:" + END);
    assertThat(lengths).containsExactly(110, 10);
    // In step 9 of the second block nothing lives any more, and no fourth one follows.
    assertThat(steps.enqueued).containsExactly("8 to 108", "8 to 116", "at 8: 8 to 124");
  }

  @Test
  void aGroupThatHasFailedDeliversNoToken() {
    Fake steps = new Fake(20, 20);
    steps.failAt = 5;
    assertThatThrownBy(
            () -> new TokenFollower(continuation(20, 20), new int[2]).follow(steps, this::hear))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("rank 1 was lost");
    assertThat(heard).hasSize(10).last().isEqualTo("1:1004");
  }

  @Test
  void logitsThatAreNoNumbersAreRefused() {
    Fake steps = new Fake(20, 20);
    steps.notFiniteAt = 2;
    assertThatThrownBy(
            () -> new TokenFollower(continuation(20, 20), new int[2]).follow(steps, this::hear))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("not finite numbers");
    assertThat(heard).hasSize(4);
  }

  @Test
  void aRowWhoseTokenTheGpuCouldNotChooseWaitsWhileTheOthersEnd() {
    Fake steps = new Fake(20, 20);
    steps.undecidedAt = 5;
    int[] lengths = {100, 7};
    new TokenFollower(continuation(20, 20), lengths).follow(steps, this::hear);
    assertThat(heard).hasSize(25).contains("0:4").doesNotContain("0:6").endsWith("1:1019");
    assertThat(lengths).containsExactly(105, 27);
  }

  @Test
  void aTemperatureThatNoLogitCanBeDividedByChoosesTheGreatest() {
    assertThat(SelfFedSteps.divisor(0)).isZero();
    assertThat(SelfFedSteps.divisor(9e-31f)).isZero();
    assertThat(SelfFedSteps.divisor(Float.MIN_VALUE)).isZero();
    assertThat(SelfFedSteps.divisor(1e-30f)).isEqualTo(1e-30f);
    assertThat(SelfFedSteps.divisor(0.8f)).isEqualTo(0.8f);
  }

  private void hear(int row, int token) {
    heard.add(row + ":" + token);
  }

  private static Continuation continuation(int... remaining) {
    return Continuation.greedy(new int[remaining.length], remaining, List.of(END));
  }

  /** Row r has the token 1000 r + step as long as it lives. */
  private static final class Fake implements TokenFollower.Steps {
    private final int[] remaining;
    private final List<String> enqueued = new ArrayList<>();
    private int endAt = -1;
    private int failAt = -1;
    private int notFiniteAt = -1;
    private int undecidedAt = -1;
    private int read;
    private int available;

    Fake(int... remaining) {
      this.remaining = remaining;
    }

    @Override
    public void enqueue(int positions, int steps) {
      available += steps;
      enqueued.add((read == 0 ? "" : "at " + read + ": ") + steps + " to " + positions);
    }

    @Override
    public int await(int step, int row) {
      assertThat(step).as("a step that was enqueued").isLessThan(available);
      read = step + 1;
      if (step == notFiniteAt) {
        return TokenRing.NOT_FINITE;
      }
      if (step >= remaining[row] || (row == 0 && endAt >= 0 && step > endAt)) {
        return TokenRing.IDLE;
      }
      if (row == 0 && undecidedAt >= 0 && step >= undecidedAt) {
        return step == undecidedAt ? TokenRing.UNDECIDED : TokenRing.IDLE;
      }
      return row == 0 && step == endAt ? END : 1000 * row + step;
    }

    @Override
    public void throwIfFailed() {
      if (read == failAt + 1) {
        throw new CollectiveException("rank 1 was lost");
      }
    }
  }
}
