package io.nvrar.examples.llama.generate;

/** Receives tokens as they are generated. */
public interface TokenSink {

  /**
   * A token was generated.
   *
   * @param sequence the sequence of the token
   * @param token the token
   * @param logits the logits from which it was chosen; valid during the call. Empty if the engine
   *     has chosen it, which it does only for requests that keep no logits
   */
  void accept(int sequence, int token, float[] logits);
}
