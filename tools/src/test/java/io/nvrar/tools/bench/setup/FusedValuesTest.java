package io.nvrar.tools.bench.setup;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.AllReduceFusion.Form;
import io.nvrar.DataType;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class FusedValuesTest {
  private static final int HIDDEN = 104;
  private static final long SEED = 7;

  /** The right results of float32, in whole rows of float arithmetic. */
  private static final class Right {
    final FusedValues values;
    final float[] output = new float[2 * HIDDEN];
    final float[] residualOut = new float[2 * HIDDEN];
    final float[] squares = new float[2 * 4];

    Right(Form form) {
      FusedRows rows = new FusedRows(form, HIDDEN, List.of(2));
      Settings settings = TestSettings.withFused(TestSettings.onGpus(4, 0, -1, 30), rows);
      CollectiveValues sums =
          new CollectiveValues(
              TimedCollective.ALL_REDUCE, DataType.FLOAT32, settings.op(), 0, 4, 2 * HIDDEN);
      values = new FusedValues(sums, rows);
      long[] reduced = sums.sums(SEED);
      float[] residual = values.residual(SEED);
      float[] weight = values.weight(SEED);
      for (int row = 0; row < 2; row++) {
        float all = 0;
        for (int i = 0; i < HIDDEN; i++) {
          int at = row * HIDDEN + i;
          residualOut[at] = reduced[at] + (form == Form.BIAS ? weight[i] : residual[at]);
          squares[row * 4 + i / 32] += residualOut[at] * residualOut[at];
          all += residualOut[at] * residualOut[at];
        }
        float scale = (float) (1 / Math.sqrt(all / HIDDEN + FusedValues.EPS));
        for (int i = 0; i < HIDDEN; i++) {
          int at = row * HIDDEN + i;
          output[at] =
              switch (form) {
                case RESIDUAL, BIAS -> residualOut[at];
                case RMS_NORM -> residualOut[at] * scale * weight[i];
                case RMS_FOLD -> residualOut[at] * weight[i];
              };
        }
      }
    }

    long wrong() {
      return values.wrong(SEED, output, residualOut, squares);
    }
  }

  @ParameterizedTest
  @EnumSource(Form.class)
  void rightResultsAreRightAndEachWrongElementCounts(Form form) {
    Right right = new Right(form);
    assertThat(right.wrong()).isZero();
    right.output[105] += Math.ulp(right.output[105]) * (form == Form.RMS_NORM ? 40 : 1);
    assertThat(right.wrong()).isEqualTo(1);
    right.residualOut[3]++;
    boolean normalises = form == Form.RMS_NORM || form == Form.RMS_FOLD;
    assertThat(right.wrong()).isEqualTo(normalises ? 2 : 1);
    right.squares[7]++;
    assertThat(right.wrong()).isEqualTo(form == Form.RMS_FOLD ? 3 : normalises ? 2 : 1);
    right.output[0] = Float.NaN;
    assertThat(right.wrong()).isEqualTo(form == Form.RMS_FOLD ? 4 : normalises ? 3 : 2);
  }

  @Test
  void resultThatWasNeverWrittenIsWrong() {
    Right right = new Right(Form.RMS_FOLD);
    Arrays.fill(right.output, Float.NaN);
    Arrays.fill(right.residualOut, Float.NaN);
    Arrays.fill(right.squares, Float.NaN);
    assertThat(right.wrong()).isEqualTo(2 * (HIDDEN + HIDDEN + 4));
  }

  @Test
  void factorIsNever0() {
    for (float factor : new Right(Form.RMS_NORM).values.weight(3)) {
      assertThat(factor).isPositive();
    }
  }
}
