package io.nvrar.examples.training;

import java.awt.BasicStroke;
import java.awt.Color;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.style.Styler.LegendPosition;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** The losses of a run, as a table and as a picture. */
final class LossCurve {
  private static final int WIDTH = 760;
  private static final int HEIGHT = 420;

  /** As many points are in the picture at most. */
  private static final int POINTS = 400;

  private LossCurve() {}

  /** A line for each step, with what the step's loss is exactly. */
  static void writeTable(float[] losses, Path file) throws IOException {
    StringBuilder lines = new StringBuilder("step,loss\n");
    for (int step = 1; step <= losses.length; step++) {
      lines.append(step).append(',').append(losses[step - 1]).append('\n');
    }
    Files.writeString(file, lines);
  }

  /** Draws the loss curve as a PNG. */
  static void draw(float[] losses, double heldOutLoss, Path file) throws IOException {
    // Or a DISPLAY that does not answer would be waited for.
    System.setProperty("java.awt.headless", "true");
    int each = Math.max(1, losses.length / POINTS);
    int count = losses.length / each;
    double[] steps = IntStream.rangeClosed(1, count).mapToDouble(i -> (double) i * each).toArray();
    double[] means =
        IntStream.range(0, count)
            .mapToDouble(i -> mean(losses, i * each, (i + 1) * each))
            .toArray();
    XYChart chart =
        new XYChartBuilder()
            .width(WIDTH)
            .height(HEIGHT)
            .title("Loss of a character GPT")
            .xAxisTitle("step")
            .yAxisTitle("nats for a character")
            .build();
    chart
        .getStyler()
        .setXAxisMin(0.0)
        .setLegendPosition(LegendPosition.InsideNE)
        .setChartBackgroundColor(Color.WHITE)
        .setLocale(Locale.ROOT);
    chart
        .addSeries("training", steps, means)
        .setMarker(SeriesMarkers.NONE)
        .setLineStyle(new BasicStroke(1.5f));
    chart
        .addSeries(
            String.format(Locale.ROOT, "held out: %.3f", heldOutLoss),
            new double[] {steps[0], steps[count - 1]},
            new double[] {heldOutLoss, heldOutLoss})
        .setMarker(SeriesMarkers.NONE)
        .setLineStyle(
            new BasicStroke(
                1.5f, BasicStroke.CAP_BUTT, BasicStroke.JOIN_MITER, 1, new float[] {6, 4}, 0));
    ImageIO.write(BitmapEncoder.getBufferedImage(chart), "png", file.toFile());
  }

  /** The mean of losses[from, to); a negative {@code from} counts as 0. */
  static double mean(float[] losses, int from, int to) {
    return IntStream.range(Math.max(0, from), to)
        .mapToDouble(i -> losses[i])
        .average()
        .orElse(Double.NaN);
  }
}
