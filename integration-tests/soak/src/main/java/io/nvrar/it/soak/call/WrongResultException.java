package io.nvrar.it.soak.call;

/** A call succeeded with a wrong result, which must never happen. */
public final class WrongResultException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public WrongResultException(String message) {
    super(message);
  }
}
