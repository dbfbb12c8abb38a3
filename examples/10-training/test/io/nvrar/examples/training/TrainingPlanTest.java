package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TrainingPlanTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          0 | 8 | 2 | 4 | 1 | 1 | 0.1      | --layers is 0, must be 1 to 64
          1 | 0 | 2 | 4 | 1 | 1 | 0.1      | --width is 0, must be 1 to 4096
          1 | 8 | 3 | 4 | 1 | 1 | 0.1      | --heads is 3, must divide --width, 8
          1 | 8 | 2 | 1 | 1 | 1 | 0.1      | --context is 1, must be 2 to 4096
          1 | 8 | 2 | 4 | 0 | 1 | 0.1      | --batch is 0, must be 1 to 4096
          1 | 8 | 2 | 4 | 1 | 0 | 0.1      | --steps is 0, must be 1 to 10000000
          1 | 8 | 2 | 4 | 1 | 1 | NaN      | --rate is NaN, must be a number above 0
          1 | 8 | 2 | 4 | 1 | 1 | 0        | --rate is 0.0, must be a number above 0
          1 | 8 | 2 | 4 | 1 | 1 | Infinity | --rate is Infinity, must be a number above 0
          """)
  void whatIsOutOfRangeIsOneSentence(
      int layers,
      int width,
      int heads,
      int context,
      int batch,
      int steps,
      float rate,
      String sentence) {
    assertThatThrownBy(() -> new TrainingPlan(layers, width, heads, context, batch, steps, rate, 1))
        .isInstanceOf(TrainingException.class)
        .hasMessage(sentence);
  }
}
