package io.nvrar.examples.training;

import io.nvrar.tools.ErrorStream;
import java.io.PrintWriter;
import java.util.Locale;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;
import org.jspecify.annotations.Nullable;

/** Shows on standard error how a run goes: a bar on a terminal, else a line at each checkpoint. */
final class TrainingProgress implements TrainingRun.Listener, AutoCloseable {
  /** The losses over which the one that is shown is averaged. */
  static final int SMOOTHED = 20;

  private final PrintWriter err;
  private final TrainingPlan plan;
  private final int ranks;
  private final @Nullable ProgressBar bar;
  private long begin;
  private int beginSteps;
  private float[] losses = {};

  TrainingProgress(PrintWriter err, TrainingPlan plan, int ranks) {
    this.err = err;
    this.plan = plan;
    this.ranks = ranks;
    bar =
        ErrorStream.isTerminal()
            ? new ProgressBarBuilder()
                // The library's default is descriptor 2, even if System.err was redirected.
                .setConsumer(new ConsoleProgressBarConsumer(System.err))
                .setTaskName("Training")
                .setInitialMax(plan.steps)
                .setStyle(ProgressBarStyle.ASCII)
                .setUpdateIntervalMillis(100)
                .build()
            : null;
  }

  @Override
  public void started(long parameters, int steps) {
    begin = System.nanoTime();
    beginSteps = steps;
    if (bar != null) {
      bar.stepTo(steps);
    } else {
      err.printf(
          Locale.ROOT,
          "%d parameters on %d %s, %s%n",
          parameters,
          ranks,
          ranks == 1 ? "rank" : "ranks",
          steps == 0 ? "from the first step" : "from the checkpoint after step " + steps);
    }
  }

  @Override
  public void progressed(float[] now) {
    losses = now;
    if (bar != null) {
      bar.stepTo(now.length);
      bar.setExtraMessage(
          String.format(Locale.ROOT, " loss %.3f, %.0f tokens/s", smoothed(), tokensPerSecond()));
    }
  }

  @Override
  public void checkpointTaken(int steps) {
    if (bar == null) {
      err.printf(
          Locale.ROOT,
          "step %d of %d: loss %.4f, %.0f tokens/s%n",
          steps,
          plan.steps,
          smoothed(),
          tokensPerSecond());
    }
  }

  @Override
  public void actorLost(String who, int steps) {
    err.printf(
        Locale.ROOT,
        "%s%s was lost after step %d: fresh actors resume after step %d%n",
        bar == null ? "" : System.lineSeparator(),
        who,
        losses.length,
        steps);
  }

  /** Since the run began or went on. */
  double tokensPerSecond() {
    double seconds = (System.nanoTime() - begin) / 1e9;
    return (double) (losses.length - beginSteps) * plan.batch * plan.context / seconds;
  }

  private double smoothed() {
    return LossCurve.mean(losses, losses.length - SMOOTHED, losses.length);
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
    }
  }
}
