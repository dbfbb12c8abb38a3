package io.nvrar.examples.training;

/** A training cannot start or continue; the message is one sentence. */
public final class TrainingException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Creates an exception with this message. */
  public TrainingException(String sentence) {
    super(sentence);
  }

  /** Creates an exception with this message and cause. */
  public TrainingException(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
