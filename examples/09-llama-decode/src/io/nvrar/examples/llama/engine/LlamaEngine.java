package io.nvrar.examples.llama.engine;

import io.nvrar.examples.llama.weights.LlamaConfig;

/**
 * One rank's forward pass of a Llama with a KV cache. All ranks of the group make the same calls in
 * the same order. Not safe for concurrent use.
 */
public interface LlamaEngine extends AutoCloseable {

  /** The model. */
  LlamaConfig config();

  /** The most rows that a batch may have once {@link #begin} has returned. */
  int maxRows();

  /**
   * Drops all sequences and makes room for new ones.
   *
   * @param capacities the largest number of tokens of each sequence
   */
  void begin(int[] capacities);

  /**
   * Appends a batch's tokens to their sequences and computes the logits that it asks for.
   *
   * @param batch the tokens; those of a sequence in their order
   * @param logits row k becomes the logits of the k-th row of the batch that wants them; each row
   *     has {@code config().vocabularySize()} numbers, bit for bit the same on all ranks
   */
  void forward(TokenBatch batch, float[][] logits);

  /**
   * Generates on until all sequences have ended, or want a token that it cannot choose by itself,
   * if this engine can feed itself.
   *
   * @param continuation where the sequences stand, after the {@link #forward} of their prompts
   * @param listener hears each token, those of a sequence in their order
   * @return whether it has; else nothing has happened
   */
  default boolean generate(Continuation continuation, TokenListener listener) {
    return false;
  }

  /** Hears the tokens of {@link #generate}. */
  interface TokenListener {
    /** A token was generated. */
    void onToken(int sequence, int token);
  }

  /**
   * Nanoseconds spent in collectives, waiting for other ranks included, since {@link #begin};
   * negative if this engine cannot tell.
   */
  long collectiveNanos();

  /** Frees the engine's memory. Idempotent. */
  @Override
  void close();
}
