package io.nvrar;

/** How a reduction combines the ranks' elements, in rank order. */
public enum ReduceOp {
  /** Sum. */
  SUM(0),
  /** Product. */
  PRODUCT(1),
  /** The larger value; a NaN operand gives NaN, and -0 is less than +0. */
  MAX(2),
  /** The smaller value; a NaN operand gives NaN, and -0 is less than +0. */
  MIN(3),
  /** The sum divided by the world size; for floats only. */
  AVG(4);

  private final int code;

  ReduceOp(int code) {
    this.code = code;
  }

  /** The code of this operation in the native library; it is NCCL's. */
  public int code() {
    return code;
  }
}
