package io.nvrar.examples.llama.weights;

import io.nvrar.CarriedCause;
import java.util.Arrays;

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

  /** What Ray's serializer writes in the place of this: it cannot carry all that led to it. */
  private Object writeReplace() {
    Throwable cause = getCause();
    if ((cause == null || travels(cause))
        && Arrays.stream(getSuppressed()).allMatch(ModelException::travels)) {
      return this;
    }
    ModelException copy = new ModelException(String.valueOf(getMessage()));
    copy.setStackTrace(getStackTrace());
    if (cause != null) {
      copy.initCause(CarriedCause.of(cause));
    }
    for (Throwable suppressed : getSuppressed()) {
      copy.addSuppressed(CarriedCause.of(suppressed));
    }
    return copy;
  }

  private static boolean travels(Throwable e) {
    return CarriedCause.of(e) == e;
  }
}
