package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.internal.AtomicFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * A Markdown page with a place between two marks, where results stand.
 *
 * @param page the file
 * @param begin the line above the place
 * @param end the line below it
 */
public record MarkedPage(Path page, String begin, String end) {

  /** Checks that the page has the marks; before a measurement, which takes minutes. */
  public void check() throws IOException {
    String text = Files.readString(page, UTF_8);
    int at = text.indexOf(begin);
    if (at < 0 || text.indexOf(end, at) < 0) {
      throw new IOException(
          String.format(
              Locale.ROOT,
              "%s has no place for the results: it needs the lines '%s' and '%s'",
              page,
              begin,
              end));
    }
  }

  /** Puts results there, in the place of those before. */
  public void write(String results) throws IOException {
    check();
    String text = Files.readString(page, UTF_8);
    int at = text.indexOf(begin) + begin.length();
    AtomicFiles.replace(
        page, text.substring(0, at) + "\n" + results + text.substring(text.indexOf(end, at)));
  }
}
