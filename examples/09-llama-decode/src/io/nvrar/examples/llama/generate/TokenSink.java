package io.nvrar.examples.llama.generate;

/** Receives tokens as they are generated. */
public interface TokenSink {

  /**
   * A token was generated.
   *
   * @param sequence the sequence of the token
   * @param token the token
   * @param logits the logits from which it was chosen; valid during the call
   */
  void accept(int sequence, int token, float[] logits);
}
