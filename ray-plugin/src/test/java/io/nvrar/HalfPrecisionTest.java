package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/**
 * Against a reference that knows the formats only as sign, exponent and mantissa in double
 * arithmetic, which is exact here.
 */
class HalfPrecisionTest {
  private static final Format FLOAT16 = new Format(5, 10);
  private static final Format BFLOAT16 = new Format(8, 7);
  private static final int PATTERNS = 1 << 16;

  @Test
  void everyFloat16WidensToItsValue() {
    for (int bits = 0; bits < PATTERNS; bits++) {
      assertSameValue(bits, HalfPrecision.float16ToFloat((short) bits), FLOAT16.value(bits));
    }
  }

  @Test
  void everyBfloat16WidensToItsValue() {
    for (int bits = 0; bits < PATTERNS; bits++) {
      assertSameValue(bits, HalfPrecision.bfloat16ToFloat((short) bits), BFLOAT16.value(bits));
    }
  }

  @Test
  void everyPatternSurvivesWideningAndNarrowingNanPayloadsIncluded() {
    for (int bits = 0; bits < PATTERNS; bits++) {
      assertThat(HalfPrecision.floatToFloat16(HalfPrecision.float16ToFloat((short) bits)))
          .isEqualTo((short) bits);
      assertThat(HalfPrecision.floatToBfloat16(HalfPrecision.bfloat16ToFloat((short) bits)))
          .isEqualTo((short) bits);
    }
  }

  @Test
  void everyBoundaryBetweenNeighboursRoundsToNearestAndTiesToEven() {
    for (int bits = 0; bits < PATTERNS; bits++) {
      assertBoundary(FLOAT16, bits);
      assertBoundary(BFLOAT16, bits);
    }
  }

  @Test
  void randomFloatsOfAllMagnitudesRoundAsTheReferenceDoes() {
    SplittableRandom random = new SplittableRandom(20260101);
    for (int i = 0; i < 2_000_000; i++) {
      float value = Float.intBitsToFloat(random.nextInt());
      if (!Float.isNaN(value)) {
        assertNarrows(FLOAT16, value);
        assertNarrows(BFLOAT16, value);
      }
    }
  }

  @Test
  void aNanStaysNanWithItsSignEvenIfItsPayloadIsInTheBitsThatAreLost() {
    for (int bits : new int[] {0x7F80_0001, 0xFF80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFFA0_0000}) {
      float nan = Float.intBitsToFloat(bits);
      short half = HalfPrecision.floatToFloat16(nan);
      assertThat(FLOAT16.value(half & 0xFFFF)).isNaN();
      assertThat(half < 0).isEqualTo(bits < 0);
      short brain = HalfPrecision.floatToBfloat16(nan);
      assertThat(BFLOAT16.value(brain & 0xFFFF)).isNaN();
      assertThat(brain < 0).isEqualTo(bits < 0);
    }
  }

  private static void assertBoundary(Format format, int bits) {
    int magnitude = bits & 0x7FFF;
    if (magnitude >= format.infinity()) {
      return;
    }
    // Up to infinity, whose place in the grid is one step above the largest finite value.
    double low = format.value(bits);
    double high = format.gridValue(bits + 1);
    float middle = (float) ((low + high) / 2);
    assertNarrows(format, middle);
    assertNarrows(format, Math.nextUp(middle));
    assertNarrows(format, Math.nextDown(middle));
  }

  private static void assertNarrows(Format format, float value) {
    int actual =
        (format.equals(FLOAT16)
                ? HalfPrecision.floatToFloat16(value)
                : HalfPrecision.floatToBfloat16(value))
            & 0xFFFF;
    int expected = format.nearest(value);
    if (actual != expected) { // AssertJ's description costs too much for millions of values
      assertThat(Integer.toHexString(actual))
          .as("%s from %s", format, Float.toHexString(value))
          .isEqualTo(Integer.toHexString(expected));
    }
  }

  private static void assertSameValue(int bits, float actual, double expected) {
    // Double.valueOf keeps -0 and +0 apart and takes NaN for equal to NaN.
    assertThat(Double.valueOf((double) actual))
        .as("pattern %04x", bits)
        .isEqualTo(Double.valueOf(expected));
  }

  private record Format(int exponentBits, int mantissaBits) {
    int infinity() {
      return ((1 << exponentBits) - 1) << mantissaBits;
    }

    double value(int bits) {
      int magnitude = bits & 0x7FFF;
      double sign = (bits & 0x8000) == 0 ? 1 : -1;
      if (magnitude > infinity()) {
        return Double.NaN;
      }
      return magnitude == infinity() ? sign * Double.POSITIVE_INFINITY : gridValue(bits);
    }

    /** As if the largest exponent were one like the others. */
    double gridValue(int bits) {
      int exponent = (bits & 0x7FFF) >> mantissaBits;
      int mantissa = bits & ((1 << mantissaBits) - 1);
      int bias = (1 << (exponentBits - 1)) - 1;
      int scale = Math.max(exponent, 1) - bias - mantissaBits;
      int significand = exponent == 0 ? mantissa : mantissa | 1 << mantissaBits;
      double sign = (bits & 0x8000) == 0 ? 1 : -1;
      return sign * Math.scalb((double) significand, scale);
    }

    /** By bisection over the grid of magnitudes. */
    int nearest(float value) {
      int sign = Float.floatToRawIntBits(value) < 0 ? 0x8000 : 0;
      double magnitude = Math.abs((double) value);
      int low = 0;
      int high = infinity();
      while (high - low > 1) {
        int middle = (low + high) >>> 1;
        if (gridValue(middle) <= magnitude) {
          low = middle;
        } else {
          high = middle;
        }
      }
      double below = magnitude - gridValue(low);
      double above = gridValue(high) - magnitude;
      boolean up = above < below || (above == below && (low & 1) == 1);
      return sign | (up ? high : low);
    }
  }
}
