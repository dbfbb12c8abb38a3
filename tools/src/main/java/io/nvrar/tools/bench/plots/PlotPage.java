package io.nvrar.tools.bench.plots;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.results.Results;
import io.nvrar.tools.bench.results.TextReport;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Base64;
import java.util.Locale;

/** A page with all pictures in it, the tables, the machine and the command: one file. */
final class PlotPage {
  private final Run run;
  private final StringBuilder pictures = new StringBuilder();

  PlotPage(Run run) {
    this.run = run;
  }

  /** As an image of its own: the names within one SVG are those within the next, too. */
  void add(Plot plot, String svg) {
    pictures
        .append(
            String.format(
                Locale.ROOT, "<img width=\"%d\" height=\"%d\" ", Picture.WIDTH, Picture.HEIGHT))
        .append("alt=\"")
        .append(escaped(plot.title()))
        .append("\" ")
        .append("src=\"data:image/svg+xml;base64,")
        .append(Base64.getEncoder().encodeToString(svg.getBytes(UTF_8)))
        .append("\">\n");
  }

  String html() {
    StringWriter tables = new StringWriter();
    TextReport.print(new Results(run.rows()), new PrintWriter(tables));
    String legend =
        pictures.isEmpty()
            ? "There are no pictures, because nothing was measured at two sizes or more."
            : "Lines are medians; bands reach from the fastest to the slowest batch.";
    return String.format(
        Locale.ROOT,
        """
    <!DOCTYPE html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width">
    <title>nvrar bench</title>
    <style>
    body { font-family: sans-serif; margin: 2em; }
    img { max-width: 100%%; height: auto; }
    pre { overflow-x: auto; }
    </style>
    <h1>nvrar bench</h1>
    <p>On %s, by</p>
    <pre>%s</pre>
    <p>%s</p>
    %s<pre>%s</pre>
    </html>
    """,
        escaped(run.machine()),
        escaped(run.command()),
        legend,
        pictures,
        escaped(tables.toString()));
  }

  private static String escaped(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;");
  }
}
