package io.nvrar.tools.soak;

/** What soak must never see: a call that succeeded with other bits than it must give. */
final class WrongResultException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  WrongResultException(String message) {
    super(message);
  }
}
