package io.nvrar.tools.bench;

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
          "%s is %d, must be %d to %d".formatted(option, value, least, most));
    }
  }
}
