package io.nvrar.examples.llama.generate;

/** Hears of tokens as they are generated. */
public interface TokenSink {

  /**
   * A token was generated.
   *
   * @param sequence whose
   * @param token which
   * @param logits what it was chosen from; valid during the call
   */
  void accept(int sequence, int token, float[] logits);
}
