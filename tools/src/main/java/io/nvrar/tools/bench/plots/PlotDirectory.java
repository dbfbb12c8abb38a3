package io.nvrar.tools.bench.plots;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * A directory of pictures: one file of PNG and one of SVG for each, and {@code index.html}, which
 * holds all of them with the tables and needs no other file. Knows no class of java.awt, because it
 * also runs where they are missing.
 */
public final class PlotDirectory {
  private PlotDirectory() {}

  /**
   * Checks, before a measurement, which takes minutes, that this Java runtime can draw and that the
   * directory can be written or made. Makes nothing.
   *
   * @throws IOException if not, with the reason as one sentence
   */
  public static void check(Path directory) throws IOException {
    @Nullable Path there = directory.toAbsolutePath();
    while (there != null && !Files.exists(there)) {
      there = there.getParent();
    }
    if (there == null || !Files.isDirectory(there)) {
      throw new IOException(String.format(Locale.ROOT, "--plots: %s is not a directory", there));
    }
    if (!Files.isWritable(there)) {
      throw new IOException(String.format(Locale.ROOT, "--plots: %s cannot be written", there));
    }
    String problem = Drawing.problem();
    if (!problem.isEmpty()) {
      throw new IOException(
          String.format(
              Locale.ROOT,
              "--plots: this Java runtime cannot draw (%s); take --json here, and elsewhere nvrar bench --from FILE --plots DIR",
              problem));
    }
  }

  /** Writes pictures only, in the place of files of the same names. */
  public static void write(Path directory, List<Plot> plots) throws IOException {
    Files.createDirectories(directory);
    for (Plot plot : plots) {
      Picture picture = new Picture(plot);
      Files.writeString(directory.resolve(plot.name() + ".svg"), picture.svg(), UTF_8);
      Files.write(directory.resolve(plot.name() + ".png"), picture.png());
    }
  }
}
