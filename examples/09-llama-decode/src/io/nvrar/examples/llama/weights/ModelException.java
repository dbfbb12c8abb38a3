package io.nvrar.examples.llama.weights;

/** A model that cannot be decoded as asked; the message is one sentence for the user. */
public final class ModelException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With the sentence. */
  public ModelException(String message) {
    super(message);
  }

  /** With the sentence, and what it was made of. */
  public ModelException(String message, Throwable cause) {
    super(message, cause);
  }
}
