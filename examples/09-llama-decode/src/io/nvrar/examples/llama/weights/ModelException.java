package io.nvrar.examples.llama.weights;

import io.nvrar.CarriedCause;

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

  /** What Ray's serializer writes in the place of this: it cannot carry every cause. */
  private Object writeReplace() {
    Throwable cause = getCause();
    if (cause == null || cause instanceof CarriedCause) {
      return this;
    }
    ModelException copy = new ModelException(String.valueOf(getMessage()), CarriedCause.of(cause));
    copy.setStackTrace(getStackTrace());
    return copy;
  }
}
