package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WindowTest {
  @ParameterizedTest
  @CsvSource({"9, 8", "10, 8", "16, 8", "17, 8", "100, 8", "101, 7", "3, 2", "50, 2"})
  void eachCharacterButTheFirstIsPredictedOnceFromEnoughContext(int size, int context) {
    short[] block = new short[size];
    for (int i = 0; i < size; i++) {
      block[i] = (short) i; // its own place
    }
    int[] predicted = new int[size];
    for (Window window : Window.of(List.of(block), context)) {
      assertThat(window.characters()).hasSize(context + 1);
      for (int place = window.from(); place < context; place++) {
        int character = window.characters()[place + 1];
        predicted[character]++;
        assertThat(place + 1).isGreaterThanOrEqualTo(Math.min(character, context / 2));
      }
    }
    assertThat(predicted[0]).isZero();
    for (int i = 1; i < size; i++) {
      assertThat(predicted[i]).as("character %d", i).isEqualTo(1);
    }
  }
}
