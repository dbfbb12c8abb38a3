package io.nvrar.tools.bench.plots;

import io.nvrar.tools.bench.setup.Implementation;
import java.util.List;

/**
 * What one picture shows: a value by size, a line for each implementation.
 *
 * @param name the file's, without its ending
 * @param unit of the values
 * @param lines each of two points or more
 */
record Plot(String name, String title, String unit, List<Line> lines) {

  /** The values of one implementation, ascending by size. */
  record Line(Implementation of, List<Point> points) {}

  /**
   * A value with the band around it.
   *
   * @param bytes the size of the call, positive
   * @param value of the median, positive as the others are: both axes are logarithmic
   * @param least of the batches, not above the value
   * @param most of the batches, not below the value
   */
  record Point(long bytes, double value, double least, double most) {
    /** Whether all of it can be shown on logarithmic axes. */
    boolean canBeShown() {
      return bytes > 0 && least > 0 && Double.isFinite(most);
    }
  }
}
