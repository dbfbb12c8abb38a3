package io.nvrar.tools.bench;

import java.util.Locale;

/** Checks the numbers of options. */
final class Limits {
  private Limits() {}

  /**
   * Checks a number.
   *
   * @throws IllegalArgumentException if it is outside, with the limits as one sentence
   */
  static void require(int value, String option, int least, int most) {
    if (value < least || value > most) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%s is %d, must be %d to %d", option, value, least, most));
    }
  }
}
