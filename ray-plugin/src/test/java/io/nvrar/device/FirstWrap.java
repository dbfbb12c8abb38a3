package io.nvrar.device;

import io.nvrar.BackendUnavailableException;
import io.nvrar.DataType;

/** Wraps memory before anything else of the library is used, and says what came of it. */
final class FirstWrap {
  private FirstWrap() {}

  public static void main(String[] args) {
    try {
      HostMemory.wrap(1 << 20, DataType.INT8, 1).close();
      System.out.println("wrapped");
    } catch (BackendUnavailableException e) {
      System.out.println(e.getMessage());
    }
  }
}
