package io.nvrar.tools.tune;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.ToDoubleFunction;

/** Has a time for every point, with noise that more batches make smaller. */
final class PlantedMeasurer implements Measurer {
  private static final double NOISE = 0.03;

  private final ToDoubleFunction<Point> us;
  private final Random random = new Random(11);
  final List<Point> points = new ArrayList<>();
  int closed;

  /** A negative time is that of a point with wrong results. */
  PlantedMeasurer(ToDoubleFunction<Point> us) {
    this.us = us;
  }

  @Override
  public Timing measure(Point point) {
    points.add(point);
    double planted = us.applyAsDouble(point);
    double noise = random.nextGaussian() * NOISE / Math.sqrt(point.repeats());
    double measured = Math.abs(planted) * (1 + noise);
    return new Timing(measured, measured * 0.9, measured * 1.1, planted < 0 ? 7 : 0);
  }

  @Override
  public void close() {
    closed++;
  }
}
