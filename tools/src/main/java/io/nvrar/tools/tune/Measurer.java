package io.nvrar.tools.tune;

import java.io.IOException;

/** Measures points, one after another. */
interface Measurer extends AutoCloseable {

  /**
   * Measures a point, and checks every element of its results.
   *
   * @throws IOException if it cannot be measured; then neither can any other
   */
  Timing measure(Point point) throws IOException;

  @Override
  void close() throws IOException;
}
