package io.nvrar.internal.device.memory;

import io.nvrar.DataType;
import java.util.Locale;

/** The type and number of a buffer's elements, with checks of arguments against them. */
record Elements(DataType dataType, long count) {

  Elements {
    if (count < 0) {
      throw new IllegalArgumentException(
          "a buffer of " + count + " elements cannot be allocated; a count is 0 or more");
    }
    if (count > Long.MAX_VALUE / dataType.sizeBytes()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a buffer of %d elements of %d bytes is too large; its bytes, 2^63 or more, fit in no address space",
              count,
              dataType.sizeBytes()));
    }
  }

  void requireRange(String what, long offset, long n) {
    if (offset < 0 || n < 0 || offset > count - n) {
      throw new IllegalArgumentException(
          what
              + " of "
              + n
              + " elements from element "
              + offset
              + " does not fit in the buffer "
              + this);
    }
  }

  static void requireArrayRange(int length, int offset, int n) {
    if (offset < 0 || offset > length - n) {
      throw new IllegalArgumentException(
          "the copy of "
              + n
              + " elements from index "
              + offset
              + " does not fit in an array of "
              + length);
    }
  }

  void requireBytes(int n) {
    long sizeBytes = count * dataType.sizeBytes();
    if (n > sizeBytes) {
      throw new IllegalArgumentException(
          "the copy of "
              + n
              + " bytes does not fit in the buffer "
              + this
              + " of "
              + sizeBytes
              + " bytes");
    }
  }

  void requireJavaType(String method, Class<?> element) {
    Class<?> own = javaElement();
    if (element != own) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s(%s[]) was called on the buffer %s; copy a %s[]",
              method,
              element,
              this,
              own));
    }
  }

  /** The Java type whose arrays hold such elements. */
  private Class<?> javaElement() {
    return switch (dataType) {
      case INT8, UINT8 -> byte.class;
      case INT32 -> int.class;
      case INT64 -> long.class;
      case FLOAT16, FLOAT32, BFLOAT16 -> float.class;
      case FLOAT64 -> double.class;
    };
  }

  /** Such as {@code float32[1024]}. */
  @Override
  public String toString() {
    return dataType.name().toLowerCase(Locale.ROOT) + "[" + count + "]";
  }
}
