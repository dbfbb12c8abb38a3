package io.nvrar.examples.llama.weights;

import java.nio.ByteBuffer;

/** How a number is stored, little-endian; the names are those of safetensors. */
public enum FloatFormat {
  /** IEEE binary32. */
  F32(4) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return bytes.getFloat(offset);
    }

    @Override
    void write(ByteBuffer bytes, int offset, float number) {
      bytes.putFloat(offset, number);
    }
  },
  /** IEEE binary16. */
  F16(2) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return widenHalf(bytes.getShort(offset));
    }

    @Override
    void write(ByteBuffer bytes, int offset, float number) {
      bytes.putShort(offset, toHalf(number));
    }
  },
  /** The upper half of a binary32. */
  BF16(2) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return Float.intBitsToFloat(bytes.getShort(offset) << 16);
    }

    @Override
    void write(ByteBuffer bytes, int offset, float number) {
      bytes.putShort(offset, toBrain(number));
    }
  };

  private final int sizeBytes;

  FloatFormat(int sizeBytes) {
    this.sizeBytes = sizeBytes;
  }

  /** The bytes of a number. */
  public int sizeBytes() {
    return sizeBytes;
  }

  /** The number at an offset of a little-endian buffer. */
  abstract float read(ByteBuffer bytes, int offset);

  /** Stores the nearest number of this format, of two the even one, in a little-endian buffer. */
  abstract void write(ByteBuffer bytes, int offset, float number);

  // Float.float16ToFloat exists from JDK 20 on.
  private static float widenHalf(short half) {
    int sign = (half & 0x8000) << 16;
    int exponent = half >> 10 & 0x1f;
    int fraction = half & 0x3ff;
    if (exponent == 0) {
      float magnitude = fraction * 0x1p-24f;
      return sign == 0 ? magnitude : -magnitude;
    }
    int widened = exponent == 0x1f ? 0xff : exponent + 112;
    return Float.intBitsToFloat(sign | widened << 23 | fraction << 13);
  }

  private static short toHalf(float number) {
    int bits = Float.floatToRawIntBits(number);
    int sign = bits >>> 16 & 0x8000;
    float magnitude = Math.abs(number);
    if (Float.isNaN(number)) {
      return (short) (sign | 0x7e00);
    }
    if (magnitude >= 65520f) {
      return (short) (sign | 0x7c00);
    }
    if (magnitude < 0x1p-14f) {
      // Subnormals are multiples of 2^-24. What rounds up to 2^-14 has its bits, too.
      return (short) (sign | (int) Math.rint(magnitude * 0x1p24));
    }
    int rebased = (bits & 0x7fffffff) - (112 << 23);
    return (short) (sign | rounded(rebased, 13));
  }

  static short toBrain(float number) {
    int bits = Float.floatToRawIntBits(number);
    return (short) (Float.isNaN(number) ? bits >>> 16 | 0x40 : rounded(bits, 16));
  }

  /** Drops low bits, rounding to the nearest, of two to the even; a carry raises the exponent. */
  private static int rounded(int bits, int dropped) {
    int half = (1 << (dropped - 1)) - 1;
    return (bits + half + (bits >>> dropped & 1)) >>> dropped;
  }
}
