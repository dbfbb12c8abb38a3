package io.nvrar.tools.bench.plots;

import java.util.List;

/**
 * What one picture shows: lines of values over sizes, both on logarithmic axes.
 *
 * @param name the file's, without its ending
 * @param sizes what the sizes are, such as bytes
 * @param unit of the values
 * @param lines each of two points or more
 */
public record Plot(String name, String title, String sizes, String unit, List<Line> lines) {

  /**
   * The values of one contestant, ascending by size.
   *
   * @param name unique in the picture
   * @param rgb its colour, 0xRRGGBB
   */
  public record Line(String name, int rgb, List<Point> points) {}

  /**
   * A value with the band around it.
   *
   * @param size positive
   * @param value of the median, positive as the others are
   * @param least of the batches, not above the value
   * @param most of the batches, not below the value
   */
  public record Point(long size, double value, double least, double most) {
    /** Whether all of it can be shown on logarithmic axes. */
    boolean canBeShown() {
      return size > 0 && least > 0 && Double.isFinite(most);
    }
  }
}
