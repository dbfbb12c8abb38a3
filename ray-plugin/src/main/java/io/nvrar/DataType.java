package io.nvrar;

/** The type of a buffer's elements. */
public enum DataType {
  /** Signed 8-bit integers; reductions wrap. */
  INT8(0, 1),
  /** Unsigned 8-bit integers, which Java holds as {@code byte}s; reductions wrap. */
  UINT8(1, 1),
  /** Signed 32-bit integers; reductions wrap. */
  INT32(2, 4),
  /** Signed 64-bit integers; reductions wrap. */
  INT64(4, 8),
  /** IEEE 754 binary16; reduced in float32. */
  FLOAT16(6, 2),
  /** IEEE 754 binary32. */
  FLOAT32(7, 4),
  /** IEEE 754 binary64. */
  FLOAT64(8, 8),
  /** The upper half of a binary32; reduced in float32. */
  BFLOAT16(9, 2);

  private final int code;
  private final int sizeBytes;

  DataType(int code, int sizeBytes) {
    this.code = code;
    this.sizeBytes = sizeBytes;
  }

  /** The code of this type in the native library; it is NCCL's. */
  public int code() {
    return code;
  }

  /** Bytes of one element. */
  public int sizeBytes() {
    return sizeBytes;
  }

  /** Whether the elements are floating-point numbers. */
  public boolean isFloat() {
    return switch (this) {
      case FLOAT16, FLOAT32, FLOAT64, BFLOAT16 -> true;
      case INT8, UINT8, INT32, INT64 -> false;
    };
  }
}
