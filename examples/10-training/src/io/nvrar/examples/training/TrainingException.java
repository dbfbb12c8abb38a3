package io.nvrar.examples.training;

/** Says in one sentence why a training cannot begin or go on. */
public final class TrainingException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With the sentence. */
  public TrainingException(String sentence) {
    super(sentence);
  }

  /** With the sentence and its cause. */
  public TrainingException(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
