package io.nvrar.it.soak.call;

/**
 * The values that the ranks send, as a function of (call, rank, index), so that they need not be
 * stored.
 */
enum Values {
  /** Every pattern, with all NaNs, infinities and the packets' marks for an empty slot. */
  ANY_BITS,
  /** Floats of a few binary magnitudes, where the order of additions shows; any integers. */
  MODERATE,
  /** One element in four is a zero, an infinity, a NaN, a subnormal or all ones. */
  SPECIAL;

  private static final long[] SPECIAL_FLOAT16 = {
    0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x83FF, 0xFFFF, 0x7BFF, 0x7FFF
  };
  private static final long[] SPECIAL_BFLOAT16 = {
    0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x0001, 0x807F, 0xFFFF, 0x7F7F, 0x7FFF
  };
  private static final long[] SPECIAL_FLOAT32 = {
    0,
    0x8000_0000L,
    0x7F80_0000L,
    0xFF80_0000L,
    0x7FC0_0000L,
    0xFFC0_0001L,
    0x7F80_0001L,
    1,
    0x807F_FFFFL,
    0xFFFF_FFFFL,
    0x7F7F_FFFFL,
    0x7FFF_FFFFL
  };
  private static final long[] SPECIAL_FLOAT64 = {
    0,
    0x8000_0000_0000_0000L,
    0x7FF0_0000_0000_0000L,
    0xFFF0_0000_0000_0000L,
    0x7FF8_0000_0000_0000L,
    0xFFF8_0000_0000_0001L,
    0x7FF0_0000_0000_0001L,
    1,
    0x800F_FFFF_FFFF_FFFFL,
    -1L,
    0x7FEF_FFFF_FFFF_FFFFL,
    0xFFFF_FFFF_0000_0000L
  };
  private static final long[] SPECIAL_INTEGER = {
    0, -1, 1, 0x7F, 0x80, Integer.MAX_VALUE, Integer.MIN_VALUE, Long.MAX_VALUE, Long.MIN_VALUE
  };

  /** The bits of one element, in the low bytes of a long. */
  long bits(long seed, int rank, long index, int typeCode) {
    long any = Dice.mix(seed + Dice.mix(rank * 0x1_0000_0000L + index));
    if (this == ANY_BITS) {
      return any;
    }
    if (this == SPECIAL && (any >>> 62) == 0) {
      long[] special = specials(typeCode);
      return special[(int) ((any >>> 8 & 0xFFFF) % special.length)];
    }
    return switch (typeCode) {
      case 6 -> moderate(any, 10, 15);
      case 9 -> moderate(any, 7, 127);
      case 7 -> moderate(any, 23, 127);
      case 8 -> moderate(any, 52, 1023);
      default -> any;
    };
  }

  private static long[] specials(int typeCode) {
    return switch (typeCode) {
      case 6 -> SPECIAL_FLOAT16;
      case 9 -> SPECIAL_BFLOAT16;
      case 7 -> SPECIAL_FLOAT32;
      case 8 -> SPECIAL_FLOAT64;
      default -> SPECIAL_INTEGER;
    };
  }

  /** 2^-4 up to 2^4, either sign. */
  private static long moderate(long any, int mantissaBits, int bias) {
    long mantissa = any & ((1L << mantissaBits) - 1);
    long exponent = bias - 4 + (any >>> 52 & 7);
    long sign = any >>> 55 & 1;
    int exponentBits = 64 - Long.numberOfLeadingZeros(bias);
    return ((sign << (exponentBits + 1) | exponent) << mantissaBits) | mantissa;
  }
}
