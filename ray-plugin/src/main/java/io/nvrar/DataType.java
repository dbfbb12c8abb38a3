package io.nvrar;

/** The type of a buffer's elements. */
public enum DataType {
  /** Signed 32-bit integers; sums wrap. */
  INT32(2, 4),
  /** IEEE 754 binary16; reduced in float32. */
  FLOAT16(6, 2),
  /** IEEE 754 binary32. */
  FLOAT32(7, 4),
  /** The upper half of a binary32; reduced in float32. */
  BFLOAT16(9, 2);

  private final int code;
  private final int sizeBytes;

  DataType(int code, int sizeBytes) {
    this.code = code;
    this.sizeBytes = sizeBytes;
  }

  /** The code of this type in the native library, NCCL's. */
  public int code() {
    return code;
  }

  /** Bytes of one element. */
  public int sizeBytes() {
    return sizeBytes;
  }
}
