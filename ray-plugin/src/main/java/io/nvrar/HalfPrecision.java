package io.nvrar;

/**
 * Conversions between float and the 16-bit types, whose bits Java holds in a {@code short}.
 * Narrowing rounds to nearest, ties to even, and overflows to infinity; NaN stays NaN with its sign
 * and the upper bits of its payload. Widening is exact, so widening and then narrowing preserves
 * each of the 65,536 bit patterns.
 */
public final class HalfPrecision {
  private static final int FLOAT_INFINITY = 0x7F80_0000;
  private static final int FLOAT_MAGNITUDE = 0x7FFF_FFFF;
  private static final int FLOAT_MANTISSA_BITS = 23;
  private static final int FLOAT_EXPONENT_BIAS = 127;

  private static final int BFLOAT16_SHIFT = 16;
  private static final int BFLOAT16_QUIET = 0x0040;

  private static final int FLOAT16_SIGN = 0x8000;
  private static final int FLOAT16_INFINITY = 0x7C00;
  private static final int FLOAT16_MANTISSA = 0x03FF;
  private static final int FLOAT16_QUIET = 0x0200;
  private static final int FLOAT16_MANTISSA_BITS = 10;
  private static final int FLOAT16_EXPONENT_BIAS = 15;

  /** The mantissa bits that float16 does not have. */
  private static final int FLOAT16_SHIFT = FLOAT_MANTISSA_BITS - FLOAT16_MANTISSA_BITS;

  /** The bits of 2^-14, the smallest normal float16. */
  private static final int FLOAT16_MIN_NORMAL = 113 << FLOAT_MANTISSA_BITS;

  /** The bits of 65520, the smallest float that rounds to infinity. */
  private static final int FLOAT16_OVERFLOW = 0x477F_F000;

  /** 2^-24, the step of subnormal float16. */
  private static final float FLOAT16_SUBNORMAL_STEP = 0x1p-24f;

  private HalfPrecision() {}

  /** The value of a bfloat16. */
  public static float bfloat16ToFloat(short bits) {
    return Float.intBitsToFloat(bits << BFLOAT16_SHIFT);
  }

  /** The bits of the bfloat16 nearest to a value. */
  public static short floatToBfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    int upper = bits >>> BFLOAT16_SHIFT;
    if ((bits & FLOAT_MAGNITUDE) > FLOAT_INFINITY) {
      // A payload in the lower half alone would turn into infinity.
      boolean payloadLost = (upper & (BFLOAT16_QUIET * 2 - 1)) == 0;
      return (short) (payloadLost ? upper | BFLOAT16_QUIET : upper);
    }
    // Just below a half, and the last bit that stays breaks the tie towards even; a carry runs into
    // the exponent, as it must.
    int roundUp = 0x7FFF + (upper & 1);
    return (short) ((bits + roundUp) >>> BFLOAT16_SHIFT);
  }

  /** The value of a float16. */
  public static float float16ToFloat(short bits) {
    int sign = (bits & FLOAT16_SIGN) << 16;
    int exponent = bits & FLOAT16_INFINITY;
    int mantissa = bits & FLOAT16_MANTISSA;
    if (exponent == 0) {
      // Zero and subnormal: an integer times a power of two, exact in float.
      int magnitude = Float.floatToRawIntBits(mantissa * FLOAT16_SUBNORMAL_STEP);
      return Float.intBitsToFloat(sign | magnitude);
    }
    if (exponent == FLOAT16_INFINITY) {
      return Float.intBitsToFloat(sign | FLOAT_INFINITY | mantissa << FLOAT16_SHIFT);
    }
    int rebias = (FLOAT_EXPONENT_BIAS - FLOAT16_EXPONENT_BIAS) << FLOAT_MANTISSA_BITS;
    return Float.intBitsToFloat(sign | (((exponent | mantissa) << FLOAT16_SHIFT) + rebias));
  }

  /** The bits of the float16 nearest to a value. */
  public static short floatToFloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    int sign = bits >>> 16 & FLOAT16_SIGN;
    int magnitude = bits & FLOAT_MAGNITUDE;
    if (magnitude > FLOAT_INFINITY) {
      int payload = magnitude >>> FLOAT16_SHIFT & FLOAT16_MANTISSA;
      return (short) (sign | FLOAT16_INFINITY | (payload == 0 ? FLOAT16_QUIET : payload));
    }
    if (magnitude >= FLOAT16_OVERFLOW) {
      return (short) (sign | FLOAT16_INFINITY);
    }
    if (magnitude < FLOAT16_MIN_NORMAL) {
      // Counts steps; the division by a power of two is exact, and rint rounds ties to even.
      return (short) (sign | (int) Math.rint(Math.abs(value) / FLOAT16_SUBNORMAL_STEP));
    }
    int rebias = (FLOAT_EXPONENT_BIAS - FLOAT16_EXPONENT_BIAS) << FLOAT_MANTISSA_BITS;
    int roundUp = (1 << (FLOAT16_SHIFT - 1)) - 1 + (magnitude >>> FLOAT16_SHIFT & 1);
    return (short) (sign | (magnitude - rebias + roundUp) >>> FLOAT16_SHIFT);
  }
}
