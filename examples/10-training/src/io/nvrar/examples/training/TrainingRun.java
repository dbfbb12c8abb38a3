package io.nvrar.examples.training;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A run from its first step, or from a checkpoint, to its end. When an actor is lost, all actors
 * are replaced and resume from the last checkpoint: nothing that a surviving actor holds is of use,
 * and fresh ones need no more CPUs than the run had. The losses are those of a run in which no
 * actor was lost.
 */
final class TrainingRun {
  private static final int STEPS_BETWEEN_REPORTS = 5;

  /** Losses of actors without a checkpoint between them. */
  private static final int MOST_LOSSES = 3;

  private final TrainingPlan plan;
  private final byte[] text;
  private final int checkpointEvery;
  private final @Nullable CheckpointDirectory directory;
  private final Map<String, String> options;
  private final Listener listener;
  private Checkpoint last;
  private float[] losses;

  /** Hears of the run's progress. */
  interface Listener {
    /** The actors have the model and will make the step after {@code steps}. */
    void begins(long parameters, int steps);

    /** More steps are done; {@code losses} has all of them. */
    void goesOn(float[] losses);

    /** A checkpoint was taken. */
    void kept(int steps);

    /** An actor was lost, and the run will resume after {@code steps}. */
    void lost(String who, int steps);
  }

  /**
   * The end of a run.
   *
   * @param heldOutLoss in nats for a character
   * @param sample the prompt and its continuation; empty if none was wanted
   */
  record Result(double heldOutLoss, String sample) {}

  /**
   * Creates a run.
   *
   * @param last the checkpoint to resume from; one without steps for a new run
   * @param directory for checkpoints that outlive this process; null for none
   */
  TrainingRun(
      TrainingPlan plan,
      byte[] text,
      Checkpoint last,
      int checkpointEvery,
      @Nullable CheckpointDirectory directory,
      Listener listener) {
    this.plan = plan;
    this.text = text;
    this.last = last;
    this.checkpointEvery = checkpointEvery;
    this.directory = directory;
    this.listener = listener;
    options = last.options();
    losses = last.losses();
  }

  /**
   * Trains until the plan's last step.
   *
   * @param start starts the actors
   */
  Result complete(Supplier<Trainers> start, String prompt, int sample) throws IOException {
    int lost = 0;
    int before = last.steps();
    while (true) {
      try (Trainers trainers = start.get()) {
        try {
          return complete(trainers, prompt, sample);
        } catch (RuntimeException failed) {
          lost = last.steps() > before ? 1 : lost + 1;
          before = last.steps();
          String who = trainers.loss(failed);
          if (who == null || lost > MOST_LOSSES) {
            throw failed;
          }
          listener.lost(who, last.steps());
        }
      }
    }
  }

  private Result complete(Trainers trainers, String prompt, int sample) throws IOException {
    losses = last.losses();
    listener.begins(trainers.begin(plan, text, last.steps(), last.state()), last.steps());
    while (losses.length < plan.steps) {
      int until = Math.min(plan.steps, (losses.length / checkpointEvery + 1) * checkpointEvery);
      append(trainers.train(Math.min(STEPS_BETWEEN_REPORTS, until - losses.length)));
      listener.goesOn(losses);
      if (losses.length == until) {
        keep(trainers.state());
      }
    }
    double heldOutLoss = trainers.heldOutLoss();
    return new Result(heldOutLoss, sample == 0 ? "" : trainers.sample(prompt, sample));
  }

  /** The losses of all steps; not copied. */
  float[] losses() {
    return losses;
  }

  private void append(float[] more) {
    int before = losses.length;
    losses = Arrays.copyOf(losses, before + more.length);
    System.arraycopy(more, 0, losses, before, more.length);
  }

  private void keep(byte[] state) throws IOException {
    last = new Checkpoint(options, losses, state);
    if (directory != null) {
      directory.write(last);
    }
    listener.kept(last.steps());
  }
}
