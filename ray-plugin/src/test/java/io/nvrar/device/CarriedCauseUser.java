package io.nvrar.device;

import io.nvrar.CollectiveException;

/** In another package than the library's exceptions, as what users derive is. */
public final class CarriedCauseUser {
  private CarriedCauseUser() {}

  private static final class Failed extends CollectiveException {
    private static final long serialVersionUID = 1;

    Failed(String message, Throwable cause) {
      super(message, cause);
    }
  }

  public static CollectiveException failed(String message, Throwable cause) {
    return new Failed(message, cause);
  }
}
