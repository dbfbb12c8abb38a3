package io.nvrar.examples.llama.weights;

import java.nio.ByteBuffer;

/** How a safetensors file stores a number, little-endian. */
enum FloatFormat {
  F32(4) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return bytes.getFloat(offset);
    }
  },
  F16(2) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return widenHalf(bytes.getShort(offset));
    }
  },
  BF16(2) {
    @Override
    float read(ByteBuffer bytes, int offset) {
      return Float.intBitsToFloat(bytes.getShort(offset) << 16);
    }
  };

  private final int sizeBytes;

  FloatFormat(int sizeBytes) {
    this.sizeBytes = sizeBytes;
  }

  int sizeBytes() {
    return sizeBytes;
  }

  abstract float read(ByteBuffer bytes, int offset);

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
}
