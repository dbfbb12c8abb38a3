package io.nvrar.examples.llama;

import io.nvrar.tools.ErrorStream;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.text.DecimalFormat;
import java.text.DecimalFormatSymbols;
import java.util.Locale;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;
import org.jspecify.annotations.Nullable;

/**
 * Shows on standard error how weights are loaded or written: a bar on a terminal, else a line at
 * the end if all went well.
 */
final class WeightsProgress implements AutoCloseable {
  private static final long MEGABYTE = 1_000_000;
  private static final long GIGABYTE = 1_000_000_000;

  private final PrintWriter err;
  private final long totalBytes;
  private final String done;
  private final String place;
  private final long begin = System.nanoTime();
  private final @Nullable ProgressBar bar;
  private boolean complete;

  private WeightsProgress(
      PrintWriter err, long totalBytes, String task, String done, String place) {
    this.err = err;
    this.totalBytes = totalBytes;
    this.done = done;
    this.place = place;
    bar =
        ErrorStream.isTerminal()
            ? new ProgressBarBuilder()
                // The library's default is descriptor 2, even if System.err was redirected.
                .setConsumer(new ConsoleProgressBarConsumer(System.err))
                .setTaskName(task + " " + place)
                .setInitialMax(totalBytes)
                .setUnit(isLarge() ? " GB" : " MB", isLarge() ? GIGABYTE : MEGABYTE)
                .showSpeed(
                    new DecimalFormat(
                        isLarge() ? "0.00" : "0", DecimalFormatSymbols.getInstance(Locale.ROOT)))
                .setStyle(ProgressBarStyle.ASCII)
                .setUpdateIntervalMillis(100)
                .build()
            : null;
  }

  /** Begins to load what takes so many bytes on all ranks together. */
  static WeightsProgress loading(PrintWriter err, long totalBytes, int ranks) {
    return new WeightsProgress(err, totalBytes, "Loading", "Loaded", "on " + ranks + " ranks");
  }

  /** Begins to write so many bytes. */
  static WeightsProgress writing(PrintWriter err, long totalBytes, Path directory) {
    return new WeightsProgress(err, totalBytes, "Writing", "Written", "to " + directory);
  }

  /** Shows how many bytes there are so far. */
  void update(long bytes) {
    if (bar != null) {
      bar.stepTo(bytes);
    }
  }

  /** Says that all has been done. */
  void complete() {
    complete = true;
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
    } else if (complete) {
      double seconds = (System.nanoTime() - begin) / 1e9;
      err.println(sentence(seconds));
    }
  }

  /** What is said at the end. */
  String sentence(double seconds) {
    return isLarge()
        ? String.format(
            Locale.ROOT,
            "%s %.2f GB %s in %.1f s, %.2f GB/s.",
            done,
            (double) totalBytes / GIGABYTE,
            place,
            seconds,
            totalBytes / seconds / GIGABYTE)
        : String.format(
            Locale.ROOT,
            "%s %.1f MB %s in %.1f s.",
            done,
            (double) totalBytes / MEGABYTE,
            place,
            seconds);
  }

  private boolean isLarge() {
    return totalBytes >= GIGABYTE;
  }
}
