package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.standalone.ForeignDevice.ForeignBuffer;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A fusion that no call could take is refused when it is made, with both sides in one sentence. */
@NullUnmarked
class AllReduceFusionTest {
  private final DeviceBuffer rows = floats(64);
  private final DeviceBuffer row = floats(16);
  private final DeviceBuffer four = floats(4);

  private static DeviceBuffer floats(long count) {
    return new ForeignBuffer(DataType.FLOAT32, count);
  }

  private static void refused(ThrowingCallable made, String sentence) {
    assertThatThrownBy(made)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  void eachFormHasWhatItWasMadeOfAndNothingElse() {
    assertThat(AllReduceFusion.bias(row, rows))
        .returns(AllReduceFusion.Form.BIAS, AllReduceFusion::form)
        .returns(16, AllReduceFusion::hidden)
        .returns(4L, AllReduceFusion::rows)
        .returns(row, AllReduceFusion::weight)
        .returns(rows, AllReduceFusion::output)
        .returns(null, AllReduceFusion::residualIn)
        .returns(null, AllReduceFusion::residualOut)
        .returns(null, AllReduceFusion::squares)
        .hasToString("BIAS of FLOAT32[4 x 16]");
    DeviceBuffer residualOut = floats(64);
    DeviceBuffer output = floats(64);
    assertThat(AllReduceFusion.residualRmsNorm(rows, residualOut, row, 1e-5f, output))
        .returns(AllReduceFusion.Form.RMS_NORM, AllReduceFusion::form)
        .returns(DataType.FLOAT32, AllReduceFusion::dataType)
        .returns(1e-5f, AllReduceFusion::eps)
        .returns(rows, AllReduceFusion::residualIn)
        .returns(residualOut, AllReduceFusion::residualOut)
        .returns(row, AllReduceFusion::weight)
        .returns(output, AllReduceFusion::output)
        .returns(null, AllReduceFusion::squares);
    assertThat(AllReduceFusion.residualRmsNormFold(rows, residualOut, row, output, four))
        .returns(AllReduceFusion.Form.RMS_FOLD, AllReduceFusion::form)
        .returns(four, AllReduceFusion::squares)
        .returns(0f, AllReduceFusion::eps);
  }

  @ParameterizedTest
  @CsvSource({
    "0, 16384, 0",
    "8, 8, 1",
    "5120, 5120, 1",
    "16384, 16384, 1",
    "20480, 10240, 2",
    "32768, 16384, 2",
    "65544, 24, 2731",
    "131288, 8, 16411" // 8 times a prime
  })
  void theRowsOfAResidualFollowFromTheCount(long count, int hidden, long rowCount) {
    assertThat(AllReduceFusion.residual(floats(count), floats(count)))
        .returns(hidden, AllReduceFusion::hidden)
        .returns(rowCount, AllReduceFusion::rows);
  }

  @Test
  void nullIsNamed() {
    refused(
        () -> AllReduceFusion.residual(null, rows),
        "residual is null, a fused all-reduce needs a buffer");
    refused(
        () -> AllReduceFusion.residual(rows, null),
        "output is null, a fused all-reduce needs a buffer");
    refused(
        () -> AllReduceFusion.bias(null, rows), "bias is null, a fused all-reduce needs a buffer");
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, null, row, 0, rows),
        "residualOut is null, a fused all-reduce needs a buffer");
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, rows, null, 0, rows),
        "weight is null, a fused all-reduce needs a buffer");
    refused(
        () -> AllReduceFusion.residualRmsNormFold(rows, rows, row, rows, null),
        "squares is null, a fused all-reduce needs a buffer");
  }

  @ParameterizedTest
  @EnumSource(
      mode = EnumSource.Mode.EXCLUDE,
      names = {"FLOAT16", "BFLOAT16", "FLOAT32"})
  void otherTypesAreRefused(DataType type) {
    DeviceBuffer buffer = new ForeignBuffer(type, 16);
    String sentence = type + ", a fused all-reduce takes FLOAT16, BFLOAT16 and FLOAT32";
    refused(() -> AllReduceFusion.residual(buffer, buffer), "output holds " + sentence);
    refused(() -> AllReduceFusion.bias(buffer, buffer), "output holds " + sentence);
    refused(() -> AllReduceFusion.squaresCount(type, 1, 8), "type is " + sentence);
  }

  @Test
  void typesMustAgree() {
    DeviceBuffer halves = new ForeignBuffer(DataType.FLOAT16, 64);
    refused(
        () -> AllReduceFusion.residual(halves, rows),
        "residual holds FLOAT16, output holds FLOAT32");
    refused(() -> AllReduceFusion.bias(row, halves), "bias holds FLOAT32, output holds FLOAT16");
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, halves, row, 0, rows),
        "residualOut holds FLOAT16, output holds FLOAT32");
    refused(
        () -> AllReduceFusion.residualRmsNorm(halves, halves, row, 0, halves),
        "weight holds FLOAT32, output holds FLOAT16");
    refused(
        () -> AllReduceFusion.residualRmsNormFold(rows, rows, row, rows, halves),
        "squares holds FLOAT16, sums of squares are FLOAT32");
  }

  @Test
  void countsMustAgree() {
    refused(
        () -> AllReduceFusion.residual(row, rows), "residual holds 16 elements, output holds 64");
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, row, row, 0, rows),
        "residualOut holds 16 elements, output holds 64");
    refused(
        () -> AllReduceFusion.bias(row, floats(40)),
        "output holds 40 elements, which are no whole rows of the 16 of bias");
    refused(
        () -> AllReduceFusion.residualRmsNormFold(rows, rows, row, rows, row),
        "squares holds 16 elements, 4 rows of 16 FLOAT32 need 4");
    refused(
        () -> AllReduceFusion.residual(four, four),
        "output holds 4 elements, a fused all-reduce takes a multiple of 8");
  }

  @ParameterizedTest
  @ValueSource(longs = {0, 4, 12, 16_392})
  void aRowIsAMultipleOf8AndAtMost16384(long count) {
    DeviceBuffer wrong = floats(count);
    String sentence = " holds " + count + " elements, a row has a multiple of 8, at most 16384";
    refused(() -> AllReduceFusion.bias(wrong, wrong), "bias" + sentence);
    refused(
        () -> AllReduceFusion.residualRmsNorm(wrong, wrong, wrong, 0, wrong), "weight" + sentence);
  }

  @Test
  void moreRowsThanTheLibraryCountsAreRefused() {
    long most = (1L << 32) - 1;
    DeviceBuffer bias = floats(8);
    assertThat(AllReduceFusion.bias(bias, floats(8 * most)).rows()).isEqualTo(most);
    DeviceBuffer larger = floats(8 * (most + 1));
    refused(
        () -> AllReduceFusion.bias(bias, larger),
        "output holds 4294967296 rows of 8 elements, a fused all-reduce takes at most 4294967295");
    assertThat(AllReduceFusion.residual(larger, larger).rows()).isEqualTo(1 << 21);
  }

  @ParameterizedTest
  @ValueSource(floats = {-1e-6f, Float.NaN, Float.POSITIVE_INFINITY})
  void epsIsFiniteAndNotNegative(float eps) {
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, rows, row, eps, rows),
        "eps is " + eps + ", RMSNorm needs a finite number of 0 or more");
  }

  @Test
  void theTwoZerosAreOneEps() {
    assertThat(AllReduceFusion.residualRmsNorm(rows, rows, row, -0f, floats(64)).eps())
        .isEqualTo(0f);
  }

  @Test
  void oneBufferForWhatMustBeTwoIsRefused() {
    refused(
        () -> AllReduceFusion.residualRmsNorm(floats(64), rows, row, 0, rows),
        "residualOut and output are the same buffer, a fused all-reduce needs two");
    refused(
        () -> AllReduceFusion.residualRmsNorm(rows, rows, row, 0, rows),
        "residualOut and output are the same buffer, a fused all-reduce needs two");
    DeviceBuffer sums = floats(4);
    refused(
        () -> AllReduceFusion.residualRmsNormFold(rows, rows, row, rows, sums),
        "residualOut and output are the same buffer, a fused all-reduce needs two");
    refused(
        () -> AllReduceFusion.bias(row, row),
        "bias and output are the same buffer, a fused all-reduce needs two");
    refused(
        () -> AllReduceFusion.residualRmsNorm(row, floats(16), row, 0, row),
        "weight and output are the same buffer, a fused all-reduce needs two");
    refused(
        () -> AllReduceFusion.residualRmsNorm(floats(16), row, row, 0, floats(16)),
        "weight and residualOut are the same buffer, a fused all-reduce needs two");
    DeviceBuffer eight = floats(8);
    refused(
        () -> AllReduceFusion.residualRmsNormFold(rows, rows, eight, floats(64), eight),
        "weight and squares are the same buffer, a fused all-reduce needs two");
  }

  @Test
  void emptyRowsMayAllBeOneBuffer() {
    DeviceBuffer none = floats(0);
    assertThat(AllReduceFusion.residualRmsNormFold(none, none, row, none, none).rows()).isZero();
  }

  @Test
  void thereIsASumOfSquaresForEachBegun128Bytes() {
    assertThat(AllReduceFusion.squaresCount(DataType.BFLOAT16, 3, 64)).isEqualTo(3);
    assertThat(AllReduceFusion.squaresCount(DataType.BFLOAT16, 3, 72)).isEqualTo(6);
    assertThat(AllReduceFusion.squaresCount(DataType.FLOAT32, 2, 16_384)).isEqualTo(1024);
    assertThat(AllReduceFusion.squaresCount(DataType.FLOAT16, 0, 8)).isZero();
    refused(
        () -> AllReduceFusion.squaresCount(DataType.FLOAT16, -1, 8),
        "there are -1 rows of 8 elements, a fused all-reduce takes 0 to 4294967295 rows of a multiple of 8, at most 16384");
    refused(
        () -> AllReduceFusion.squaresCount(DataType.FLOAT16, 1, 9),
        "there are 1 rows of 9 elements, a fused all-reduce takes 0 to 4294967295 rows of a multiple of 8, at most 16384");
  }
}
