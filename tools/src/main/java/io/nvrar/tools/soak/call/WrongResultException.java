package io.nvrar.tools.soak.call;

/** What soak must never see: a call that succeeded with other bits than it must give. */
public final class WrongResultException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public WrongResultException(String message) {
    super(message);
  }
}
