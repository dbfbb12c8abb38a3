package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

final class FloatFormatTest {
  private final ByteBuffer bytes = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);

  @ParameterizedTest
  @EnumSource(names = {"F16", "BF16"})
  void whatIsReadIsWrittenWithTheSameBits(FloatFormat format) {
    for (int bits = 0; bits <= 0xffff; bits++) {
      bytes.putShort(0, (short) bits);
      float number = format.read(bytes, 0);
      if (!Float.isNaN(number)) {
        format.write(bytes, 0, number);
        assertThat(bytes.getShort(0)).isEqualTo((short) bits);
      }
    }
  }

  @Test
  void numbersBetweenTwoAreRoundedToTheNearestAndHalfwayToTheEven() {
    assertThat(stored(FloatFormat.BF16, 1 + 0x1p-8f)).isEqualTo(0x3f80);
    assertThat(stored(FloatFormat.BF16, 1 + 0x1.01p-8f)).isEqualTo(0x3f81);
    assertThat(stored(FloatFormat.BF16, -(1 + 0x3p-8f))).isEqualTo(0xbf82);
    assertThat(stored(FloatFormat.BF16, Float.MAX_VALUE)).isEqualTo(0x7f80);
    assertThat(stored(FloatFormat.F16, 1 + 0x1p-11f)).isEqualTo(0x3c00);
    assertThat(stored(FloatFormat.F16, 1 + 0x1.01p-11f)).isEqualTo(0x3c01);
    assertThat(stored(FloatFormat.F16, 1 + 0x3p-11f)).isEqualTo(0x3c02);
    assertThat(stored(FloatFormat.F16, 0x1p-25f)).isEqualTo(0);
    assertThat(stored(FloatFormat.F16, -0x1.01p-25f)).isEqualTo(0x8001);
    assertThat(stored(FloatFormat.F16, 0x1.fffp-15f)).isEqualTo(0x0400);
    assertThat(stored(FloatFormat.F16, 65519f)).isEqualTo(0x7bff);
    assertThat(stored(FloatFormat.F16, 65520f)).isEqualTo(0x7c00);
  }

  @Test
  void noNumberStaysNoNumber() {
    float lowBitsOnly = Float.intBitsToFloat(0x7f800001);
    for (FloatFormat format : FloatFormat.values()) {
      format.write(bytes, 0, lowBitsOnly);
      assertThat(format.read(bytes, 0)).isNaN();
    }
  }

  private int stored(FloatFormat format, float number) {
    format.write(bytes, 0, number);
    return bytes.getShort(0) & 0xffff;
  }
}
