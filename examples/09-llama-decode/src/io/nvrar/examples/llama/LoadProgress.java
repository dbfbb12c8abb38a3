package io.nvrar.examples.llama;

import io.nvrar.tools.ErrorStream;
import java.io.PrintWriter;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;
import org.jspecify.annotations.Nullable;

/** Shows the progress of loading on standard error: a bar on a terminal, else a line at the end. */
final class LoadProgress implements AutoCloseable {
  private static final long MEGABYTE = 1_000_000;

  private final PrintWriter err;
  private final long totalBytes;
  private final int ranks;
  private final long begin = System.nanoTime();
  private final @Nullable ProgressBar bar;

  LoadProgress(PrintWriter err, long totalBytes, int ranks) {
    this.err = err;
    this.totalBytes = totalBytes;
    this.ranks = ranks;
    bar =
        ErrorStream.isTerminal()
            ? new ProgressBarBuilder()
                // The library's default is descriptor 2, even if System.err was redirected.
                .setConsumer(new ConsoleProgressBarConsumer(System.err))
                .setTaskName("Loading on " + ranks + " ranks")
                .setInitialMax(totalBytes)
                .setUnit(" MB", MEGABYTE)
                .setStyle(ProgressBarStyle.ASCII)
                .setUpdateIntervalMillis(100)
                .build()
            : null;
  }

  void update(long bytes) {
    if (bar != null) {
      bar.stepTo(bytes);
    }
  }

  double seconds() {
    return (System.nanoTime() - begin) / 1e9;
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
    } else {
      err.printf(
          "Loaded %.1f MB on %d ranks in %.1f s.%n",
          (double) totalBytes / MEGABYTE, ranks, seconds());
    }
  }
}
