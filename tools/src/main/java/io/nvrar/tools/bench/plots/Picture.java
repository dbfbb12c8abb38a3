package io.nvrar.tools.bench.plots;

import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Dimension;
import java.awt.Font;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import javax.imageio.ImageIO;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.apache.batik.svggen.SVGGraphics2D;
import org.knowm.xchart.AnnotationLine;
import org.knowm.xchart.BitmapEncoder;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.XYSeries.XYSeriesRenderStyle;
import org.knowm.xchart.style.Styler.LegendPosition;
import org.knowm.xchart.style.XYStyler;
import org.knowm.xchart.style.markers.SeriesMarkers;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

/** Draws a plot, as an image or as SVG. Not for a Java runtime without java.desktop. */
final class Picture {
  static final int WIDTH = 760;
  static final int HEIGHT = 420;
  private static final int BAND_ALPHA = 45;
  private static final int FONT = 12;
  private static final int MARKER = 5;
  private static final float LINE = 1.8f;

  /** Of the axis of values: beyond these only some of its ticks have room for a number. */
  private static final double TICKS_1_2_5_FROM = 8;

  private static final double TICKS_1_FROM = 2000;

  private static final String SVG = "http://www.w3.org/2000/svg";

  static {
    // Or a DISPLAY that does not answer would be waited for.
    System.setProperty("java.awt.headless", "true");
  }

  private final Plot plot;
  private final XYChart chart;

  Picture(Plot plot) {
    this.plot = plot;
    chart =
        new XYChartBuilder()
            .width(WIDTH)
            .height(HEIGHT)
            .title(plot.title())
            .xAxisTitle(plot.sizes())
            .yAxisTitle(plot.unit())
            .build();
    style(chart.getStyler());
    plot.lines().forEach(this::addBand);
    plot.lines().forEach(this::addLine);
  }

  private void style(XYStyler style) {
    style
        .setXAxisTickLabelsFormattingFunction(Picture::size)
        .setYAxisLogarithmic(true)
        .setYAxisLogarithmicDecadeOnly(false)
        .setYAxisTickLabelsFormattingFunction(this::number)
        .setAxisTickLabelsFont(new Font(Font.SANS_SERIF, Font.PLAIN, FONT))
        .setAxisTitleFont(new Font(Font.SANS_SERIF, Font.PLAIN, FONT))
        // Dashes would make most of an SVG file.
        .setPlotGridLinesStroke(new BasicStroke(1))
        .setPlotGridLinesColor(new Color(0xE6E6E6))
        .setLegendPosition(LegendPosition.OutsideE)
        .setLegendBorderColor(Color.WHITE)
        .setLegendFont(new Font(Font.SANS_SERIF, Font.PLAIN, FONT))
        .setChartTitleFont(new Font(Font.SANS_SERIF, Font.BOLD, FONT + 1))
        .setChartBackgroundColor(Color.WHITE)
        .setPlotBorderColor(Color.GRAY)
        .setMarkerSize(MARKER)
        .setLocale(Locale.ROOT);
    if (least() <= 1 && most() >= 1 && plot.unit().startsWith("times")) {
      chart.addAnnotation(new AnnotationLine(1, false, false));
    }
  }

  private void addLine(Line line) {
    Color color = new Color(line.rgb());
    XYSeries series =
        chart.addSeries(
            line.name(),
            line.points().stream().mapToDouble(Picture::x).toArray(),
            line.points().stream().mapToDouble(Point::value).toArray());
    series
        .setMarker(SeriesMarkers.CIRCLE)
        .setMarkerColor(color)
        .setLineColor(color)
        .setLineStyle(new BasicStroke(LINE, BasicStroke.CAP_ROUND, BasicStroke.JOIN_ROUND));
  }

  /** From the fastest to the slowest batch: along the one, and back along the other. */
  private void addBand(Line line) {
    List<Point> points = line.points();
    int count = points.size();
    double[] x = new double[2 * count];
    double[] y = new double[2 * count];
    IntStream.range(0, count)
        .forEach(
            i -> {
              x[i] = x(points.get(i));
              y[i] = points.get(i).least();
              x[2 * count - 1 - i] = x[i];
              y[2 * count - 1 - i] = points.get(i).most();
            });
    Color color = new Color(line.rgb());
    XYSeries series = chart.addSeries(line.name() + " band", x, y);
    series.setXYSeriesRenderStyle(XYSeriesRenderStyle.PolygonArea);
    series.setFillColor(new Color(color.getRed(), color.getGreen(), color.getBlue(), BAND_ALPHA));
    series.setLineColor(new Color(0, 0, 0, 0));
    series.setMarker(SeriesMarkers.NONE);
    series.setShowInLegend(false);
  }

  /**
   * The axis of sizes is linear in their logarithm of base 2, so that its ticks are powers of 2.
   */
  private static double x(Point point) {
    return Math.log((double) point.size()) / Math.log(2);
  }

  /** A blank where a tick is no power of 2, or has no room: the chart cannot leave one out. */
  private static String size(double tick) {
    if (tick != Math.rint(tick) || tick < 0 || tick > 60) {
      return " ";
    }
    long bytes = 1L << (int) tick;
    String unit = "";
    for (String next : List.of("K", "M", "G")) {
      if (bytes >= 1024) {
        bytes /= 1024;
        unit = next;
      }
    }
    return bytes + unit;
  }

  private String number(double tick) {
    BigDecimal rounded = new BigDecimal(tick).round(new MathContext(2)).stripTrailingZeros();
    String digits = rounded.unscaledValue().toString();
    double range = most() / least();
    boolean room =
        range < TICKS_1_2_5_FROM
            || digits.equals("1")
            || (range < TICKS_1_FROM && (digits.equals("2") || digits.equals("5")));
    return room ? rounded.toPlainString() : " ";
  }

  private double least() {
    return points().min().orElseThrow();
  }

  private double most() {
    return points().max().orElseThrow();
  }

  private DoubleStream points() {
    return plot.lines().stream()
        .flatMap(line -> line.points().stream())
        .flatMapToDouble(point -> DoubleStream.of(point.least(), point.most()));
  }

  BufferedImage image() {
    return BitmapEncoder.getBufferedImage(chart);
  }

  byte[] png() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    if (!ImageIO.write(image(), "png", bytes)) {
      throw new IOException("this Java runtime writes no PNG");
    }
    return bytes.toByteArray();
  }

  /** Text is drawn as shapes, so it looks alike everywhere; a description names the lines. */
  String svg() throws IOException {
    Document document;
    try {
      document =
          DocumentBuilderFactory.newInstance()
              .newDocumentBuilder()
              .getDOMImplementation()
              .createDocument(SVG, "svg", null);
    } catch (ParserConfigurationException e) {
      throw new IOException("this Java runtime writes no XML", e);
    }
    SVGGraphics2D graphics = new SVGGraphics2D(document);
    graphics.setSVGCanvasSize(new Dimension(WIDTH, HEIGHT));
    chart.paint(graphics, WIDTH, HEIGHT);
    Element root = graphics.getRoot();
    root.setAttribute("viewBox", String.format(Locale.ROOT, "0 0 %d %d", WIDTH, HEIGHT));
    Element about = document.createElementNS(SVG, "desc");
    about.setTextContent(
        plot.lines().stream()
            .map(Line::name)
            .collect(Collectors.joining(", ", plot.title() + ": ", "")));
    root.insertBefore(about, root.getFirstChild());
    try (Writer out = new StringWriter()) {
      graphics.stream(root, out, true, false);
      // Without the document type, which some readers would fetch from its address.
      return out.toString().replaceFirst("<!DOCTYPE[^>]*>\\s*", "");
    }
  }
}
