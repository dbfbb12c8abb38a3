package io.nvrar.tools.bench.plots;

import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import java.io.IOException;
import java.util.List;

/** Whether this Java runtime can draw: it may lack java.desktop, its libraries, or any font. */
final class Drawing {
  private Drawing() {}

  /** Why it cannot; empty if it can. Found out by drawing something. */
  static String problem() {
    Line line = new Line("one", 0, List.of(new Point(1, 1, 1, 1), new Point(2, 2, 2, 2)));
    try {
      // Another class than this one, which must be loaded where java.awt is not.
      Picture picture = new Picture(new Plot("", "one", "bytes", "us", List.of(line)));
      picture.png();
      picture.svg();
      return "";
    } catch (LinkageError | InternalError | RuntimeException | IOException e) {
      // Without fonts the runtime fails in ways that depend on its version.
      return e.toString();
    }
  }
}
