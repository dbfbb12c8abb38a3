package io.nvrar.it.soak.call;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The order of sums and the special values, by hand. */
class ReferenceTest {

  private static float sum(int ranksPerNode, float... values) {
    return sum(Shape.divided(values.length, ranksPerNode), values);
  }

  private static float sum(Shape shape, float... values) {
    long[] bits = new long[values.length];
    Arrays.setAll(bits, i -> Float.floatToRawIntBits(values[i]));
    Reference reference = new Reference(DataType.FLOAT32, ReduceOp.SUM, shape);
    return Float.intBitsToFloat((int) reference.reduce(bits));
  }

  @Test
  void oneNodeAddsInRankOrder() {
    assertThat(sum(0, 1e8f, 1, -1e8f)).isZero();
    assertThat(sum(0, 1e8f, -1e8f, 1)).isEqualTo(1);
  }

  @Test
  void nodesAddTheirOwnFirst() {
    assertThat(sum(1, 1e8f, 1, -1e8f)).isZero();
    assertThat(sum(2, 1, 1e8f, -1e8f, 2)).isEqualTo(1e8f + (-1e8f + 2));
    assertThat(sum(2, 1, 2, 3)).isEqualTo(6);
  }

  @Test
  void unevenHostsAddTheirOwnFirst() {
    Shape uneven = Shape.ofHosts(List.of(2, 0, 0, 0, 1, 1));
    assertThat(uneven).isEqualTo(new Shape(List.of(1, 3, 2)));
    float first = 5 + ((1 + 1e8f) + -1e8f);
    assertThat(sum(uneven, 5, 1, 1e8f, -1e8f, 1e8f, -1e8f)).isEqualTo(first);
  }

  @Test
  void nodesAreAddedLevelByLevelAndAnOddOnePassesUp() {
    // ((a + b) + (c + d)) + e, where rank order would give (((a + b) + c) + d) + e.
    assertThat(sum(1, 0, 1e8f, 1, -1e8f, 5)).isEqualTo((1e8f + (1 + -1e8f)) + 5);
    // (a + b) + c
    assertThat(sum(1, 3, -1e8f, 1e8f)).isEqualTo((3 + -1e8f) + 1e8f);
  }

  private static long reduce(DataType type, ReduceOp op, long... bits) {
    return new Reference(type, op, Shape.divided(bits.length, 0)).reduce(bits);
  }

  @Test
  void everyNanBecomesTheOneOfItsType() {
    assertThat(reduce(DataType.FLOAT32, ReduceOp.MAX, 0xFFFF_FFFFL, 0)).isEqualTo(0x7FFF_FFFF);
    assertThat(reduce(DataType.FLOAT16, ReduceOp.SUM, 0x7C00, 0xFC00)).isEqualTo(0x7FFF);
    assertThat(reduce(DataType.BFLOAT16, ReduceOp.MAX, 0x3F80, 0x7F81)).isEqualTo(0x7FFF);
  }

  @Test
  void aGroupOfOneCopies() {
    assertThat(reduce(DataType.FLOAT32, ReduceOp.SUM, 0xFF80_0001L)).isEqualTo(0xFF80_0001L);
  }

  @Test
  void minusZeroIsBelowPlusZeroAndStaysInSums() {
    assertThat(reduce(DataType.FLOAT32, ReduceOp.MAX, 0x8000_0000L, 0)).isZero();
    assertThat((int) reduce(DataType.FLOAT32, ReduceOp.SUM, 0x8000_0000L, 0x8000_0000L))
        .isEqualTo(0x8000_0000);
  }

  @Test
  void averagesDivideTheSumBeforeTheyAreRounded() {
    assertThat(reduce(DataType.FLOAT16, ReduceOp.AVG, 0x7BFF, 0x7BFF)).isEqualTo(0x7BFF);
    assertThat(Double.longBitsToDouble(reduce(DataType.FLOAT64, ReduceOp.AVG, bits(1), bits(2))))
        .isEqualTo(1.5);
  }

  private static long bits(double value) {
    return Double.doubleToRawLongBits(value);
  }

  @Test
  void smallIntegersWrapInTheirOwnWidth() {
    assertThat((byte) reduce(DataType.INT8, ReduceOp.PRODUCT, 100, 3)).isEqualTo((byte) 44);
    assertThat(reduce(DataType.UINT8, ReduceOp.MAX, 0x80, 0x7F)).isEqualTo(0x80);
    assertThat(reduce(DataType.INT8, ReduceOp.MAX, 0x80, 0x7F)).isEqualTo(0x7F);
    assertThat(reduce(DataType.INT64, ReduceOp.SUM, Long.MAX_VALUE, 1)).isEqualTo(Long.MIN_VALUE);
  }

  @Test
  void integersWrap() {
    assertThat((int) reduce(DataType.INT32, ReduceOp.SUM, Integer.MAX_VALUE, 1))
        .isEqualTo(Integer.MIN_VALUE);
  }
}
