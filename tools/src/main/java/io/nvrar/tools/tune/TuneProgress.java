package io.nvrar.tools.tune;

import io.nvrar.tools.ErrorStream;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;
import org.jspecify.annotations.Nullable;

/**
 * Shows on standard error how far the tuner is: on a terminal a bar with the time left, else a line
 * every few seconds.
 */
final class TuneProgress implements Tuner.Listener, AutoCloseable {
  private static final long LINE_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final PrintWriter err;
  private final long begin = System.nanoTime();
  private final long budgetNanos;
  private final @Nullable ProgressBar bar;
  private long lastLine = begin;

  TuneProgress(PrintWriter err, long budgetNanos) {
    this.err = err;
    this.budgetNanos = budgetNanos;
    bar =
        ErrorStream.isTerminal()
            ? new ProgressBarBuilder()
                .setConsumer(new ConsoleProgressBarConsumer(System.err))
                .setTaskName("Tuning")
                .setUnit(" points", 1)
                .setStyle(ProgressBarStyle.ASCII)
                .setUpdateIntervalMillis(200)
                .hideEta()
                .build()
            : null;
  }

  @Override
  public void measured(Point point, Timing timing, int done, int planned) {
    long passed = System.nanoTime() - begin;
    // The budget ends it if the plan does not.
    long byPlan = (long) ((double) passed / done * (planned - done));
    long left = TimeUnit.NANOSECONDS.toSeconds(Math.max(Math.min(byPlan, budgetNanos - passed), 0));
    if (bar != null) {
      bar.maxHint(planned).stepTo(done);
      bar.setExtraMessage(
          String.format(
              Locale.ROOT,
              "%d s left, %d B %s %s us",
              left,
              point.bytes(),
              point.candidate(),
              number(timing.us())));
    } else if (System.nanoTime() - lastLine >= LINE_NANOS) {
      lastLine = System.nanoTime();
      err.printf(Locale.ROOT, "nvrar: %d of %d points, %d s left%n", done, planned, left);
      err.flush();
    }
  }

  static String number(double us) {
    return String.format(Locale.ROOT, us < 100 ? "%.2f" : "%.0f", us);
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
    }
  }
}
