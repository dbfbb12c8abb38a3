package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.LlamaEngine.TokenListener;
import io.nvrar.examples.llama.engine.cuda.kernels.TokenRing;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.Arrays;

/**
 * Enqueues steps that feed themselves, and reads their tokens.
 *
 * <p>Steps are enqueued in blocks, two ahead: block i + 2 follows if some row still lives after
 * block i. That depends on the tokens alone, which are the same on all ranks, and not on when a
 * host looks: so all ranks enqueue as many steps, and none waits for a step that another lacks.
 */
final class TokenFollower {
  private static final int BLOCK_STEPS = 8;
  private static final int BLOCKS_AHEAD = 2;

  /** Steps whose tokens must be kept: the GPU may write those while the host reads others. */
  static final int RING_STEPS = (BLOCKS_AHEAD + 2) * BLOCK_STEPS;

  private final Continuation continuation;
  private final int[] lengths;
  private final int[] wanted;

  /** Where steps are enqueued, and their tokens come from. */
  interface Steps {
    /**
     * Enqueues steps.
     *
     * @param positions more than the position of any of their rows will be
     */
    void enqueue(int positions, int steps);

    /** Waits for the token of a row of a step, which is counted from 0. */
    int await(int step, int row);

    /** Throws the failure of the group if it has failed. */
    void throwIfFailed();
  }

  /**
   * For a decode.
   *
   * @param lengths how many tokens each sequence has had; raised by those that come
   */
  TokenFollower(Continuation continuation, int[] lengths) {
    this.continuation = continuation;
    this.lengths = lengths;
    wanted = new int[continuation.sequences()];
    Arrays.setAll(wanted, continuation::remaining);
  }

  /** Whether a row has not ended. */
  boolean isLive() {
    return Arrays.stream(wanted).anyMatch(count -> count > 0);
  }

  /**
   * Generates until all rows have ended, or wait for a token that the GPU could not choose.
   *
   * @throws ModelException if the logits are not numbers
   */
  void follow(Steps steps, TokenListener listener) {
    int all = Arrays.stream(wanted).max().orElse(0);
    int enqueued = 0;
    for (int block = 0; block < BLOCKS_AHEAD; block++) {
      int count = Math.min(BLOCK_STEPS, all - enqueued);
      enqueued += count;
      steps.enqueue(positionsAfter(enqueued), count);
    }
    int[] tokens = new int[wanted.length];
    for (int at = 0; isLive(); at++) {
      for (int row = 0; row < tokens.length; row++) {
        tokens[row] = steps.await(at, row);
      }
      // Calls of a group that has failed store nothing, and the choice takes what was there.
      steps.throwIfFailed();
      for (int row = 0; row < tokens.length; row++) {
        take(row, tokens[row], listener);
      }
      if ((at + 1) % BLOCK_STEPS == 0 && isLive()) {
        int count = Math.min(BLOCK_STEPS, all - enqueued);
        enqueued += count;
        steps.enqueue(positionsAfter(BLOCKS_AHEAD * BLOCK_STEPS), count);
      }
    }
  }

  static ModelException notFinite() {
    return new ModelException("The logits are not finite numbers: are the weights damaged?");
  }

  /** More than any position that a live row may have within so many steps from here. */
  private int positionsAfter(int steps) {
    int most = 0;
    for (int row = 0; row < wanted.length; row++) {
      if (wanted[row] > 0) {
        most = Math.max(most, lengths[row] + Math.min(steps, wanted[row]));
      }
    }
    return most;
  }

  private void take(int row, int token, TokenListener listener) {
    if (token == TokenRing.NOT_FINITE) {
      throw notFinite();
    }
    if (token == TokenRing.IDLE) {
      return;
    }
    if (token == TokenRing.UNDECIDED) {
      wanted[row] = 0;
      return;
    }
    lengths[row]++;
    wanted[row] = continuation.endTokens().contains(token) ? 0 : wanted[row] - 1;
    listener.onToken(row, token);
  }
}
