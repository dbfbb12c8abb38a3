package io.nvrar;

/** How a reduction combines two elements. */
public enum ReduceOp {
  /** Sum. */
  SUM(0),
  /** The larger; passes NaN on and orders -0 below +0. */
  MAX(2);

  private final int code;

  ReduceOp(int code) {
    this.code = code;
  }

  /** The code of this operation in the native library, NCCL's. */
  public int code() {
    return code;
  }
}
