package io.nvrar.tools.bench.plots;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import io.nvrar.tools.bench.setup.Implementation;
import java.awt.Color;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.util.List;
import java.util.Locale;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.stream.IntStream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/**
 * Two lines whose places in the picture are known: both are straight if both axes are logarithmic.
 */
class PictureTest {
  private static final int BAND = 4;
  private static final int LEGEND = 670;

  private static Line line(Implementation of, double... values) {
    return new Line(
        of.toString(),
        Plots.rgb(of),
        IntStream.range(0, values.length)
            .mapToObj(i -> new Point(1024L << (5 * i), values[i], values[i], values[i] * BAND))
            .toList());
  }

  private static Color color(Implementation of) {
    return new Color(Plots.rgb(of));
  }

  private final Picture picture =
      new Picture(
          new Plot(
              "name",
              "a title",
              "bytes",
              "us",
              List.of(
                  line(Implementation.CPP, 1, 32, 1024),
                  line(Implementation.NCCL, 8192, 8192, 8192))));

  private final BufferedImage image = picture.image();

  /**
   * By column, the mean height of the pixels of a color, for the connected columns that begin
   * leftmost.
   */
  private NavigableMap<Integer, Double> heights(Color color) {
    NavigableMap<Integer, Double> heights = new TreeMap<>();
    for (int column = 0; column < image.getWidth(); column++) {
      int x = column;
      OptionalDouble mean =
          IntStream.range(0, image.getHeight())
              .filter(y -> isNear(new Color(image.getRGB(x, y)), color))
              .average();
      if (mean.isPresent()) {
        heights.put(column, mean.getAsDouble());
      } else if (!heights.isEmpty()) {
        // What is further to the right is the legend.
        break;
      }
    }
    return heights;
  }

  /** The pixels of a line are mixed with those around it; those of a band are much lighter. */
  private static boolean isNear(Color one, Color other) {
    return Math.abs(one.getRed() - other.getRed())
            + Math.abs(one.getGreen() - other.getGreen())
            + Math.abs(one.getBlue() - other.getBlue())
        < 90;
  }

  @Test
  void linesAreWhereTheirValuesSayOnTwoLogarithmicAxes() {
    assertThat(image.getWidth()).isEqualTo(760);
    assertThat(image.getHeight()).isEqualTo(420);
    assertThat(new Color(image.getRGB(1, 1))).isEqualTo(Color.WHITE);

    NavigableMap<Integer, Double> rising = heights(color(Implementation.CPP));
    int left = rising.firstKey();
    int right = rising.lastKey();
    assertThat(right - left).isGreaterThan(400);
    assertThat(rising.firstEntry().getValue() - rising.lastEntry().getValue()).isGreaterThan(150);
    double middle = (rising.firstEntry().getValue() + rising.lastEntry().getValue()) / 2;
    assertThat(rising.get((left + right) / 2)).isCloseTo(middle, within(3.0));

    NavigableMap<Integer, Double> level = heights(color(Implementation.NCCL));
    double height = level.firstEntry().getValue();
    // 1024 is 2 to the power of 10, 8192 to that of 13.
    double way = 1.3;
    double expected =
        rising.firstEntry().getValue()
            + way * (rising.lastEntry().getValue() - rising.firstEntry().getValue());
    assertThat(height).isCloseTo(expected, within(3.0));
    assertThat(level.get(left + 10)).isCloseTo(height, within(1.0));
  }

  @Test
  void bandIsLightAndReachesFromTheFastestToTheSlowestBatch() {
    NavigableMap<Integer, Double> rising = heights(color(Implementation.CPP));
    int column = rising.firstKey() + 40;
    double unit = (rising.firstEntry().getValue() - rising.lastEntry().getValue()) / Math.log(1024);
    int height = (int) Math.round(Objects.requireNonNull(rising.get(column)));
    int top = (int) Math.round(height - unit * Math.log(BAND));
    assertThat(colored(column, top + 5, height - 5)).isGreaterThan(0.9);
    assertThat(colored(column, top - 30, top - 5)).isLessThan(0.1);
    assertThat(colored(column, height + 5, height + 20)).isLessThan(0.1);
  }

  /** The part of the pixels of a column that are of the light color of the band. */
  private double colored(int column, int from, int to) {
    return IntStream.range(from, to)
        .map(y -> image.getRGB(column, y))
        .mapToObj(Color::new)
        .mapToInt(color -> color.getBlue() - color.getRed() > 20 ? 1 : 0)
        .average()
        .orElseThrow();
  }

  @Test
  void svgHasTheSameLinesAndNamesThem() throws Exception {
    Document document =
        DocumentBuilderFactory.newInstance()
            .newDocumentBuilder()
            .parse(new ByteArrayInputStream(picture.svg().getBytes(UTF_8)));
    Element root = document.getDocumentElement();
    assertThat(root.getTagName()).isEqualTo("svg");
    assertThat(root.getAttribute("viewBox")).isEqualTo("0 0 760 420");
    assertThat(root.getElementsByTagName("desc").item(0).getTextContent())
        .isEqualTo("a title: c++, nccl");
    List<Element> rising = points(root, Implementation.CPP);
    assertThat(rising).hasSize(3);
    assertThat(height(rising.get(0)) - height(rising.get(1)))
        .isCloseTo(height(rising.get(1)) - height(rising.get(2)), within(0.1))
        .isGreaterThan(70);
    List<Element> level = points(root, Implementation.NCCL);
    assertThat(level).hasSize(3);
    assertThat(height(level.get(0))).isEqualTo(height(level.get(2)));
  }

  /** The points of a line, which have its color; not that of the legend. */
  private static List<Element> points(Element root, Implementation of) {
    Color color = color(of);
    String fill =
        String.format(
            Locale.ROOT, "fill:rgb(%d,%d,%d)", color.getRed(), color.getGreen(), color.getBlue());
    NodeList circles = root.getElementsByTagName("circle");
    return IntStream.range(0, circles.getLength())
        .mapToObj(i -> (Element) circles.item(i))
        .filter(circle -> Double.parseDouble(circle.getAttribute("cx")) < LEGEND)
        .filter(circle -> styleWithFill(circle).contains(fill))
        .toList();
  }

  private static String styleWithFill(Element circle) {
    String own = circle.getAttribute("style");
    return own.contains("fill:rgb")
        ? own
        : ((Element) circle.getParentNode()).getAttribute("style");
  }

  private static double height(Element circle) {
    return Double.parseDouble(circle.getAttribute("cy"));
  }
}
