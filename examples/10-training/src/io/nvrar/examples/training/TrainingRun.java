package io.nvrar.examples.training;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Runs a training to its last step, from the start or a checkpoint. If an actor is lost, all actors
 * are replaced and resume from the last checkpoint, because survivors may have made different
 * numbers of steps. The training losses equal those of an undisturbed run.
 */
final class TrainingRun {
  private static final int STEPS_BETWEEN_REPORTS = 5;

  /** Without a checkpoint between them. */
  private static final int MOST_RESTARTS = 3;

  private final TrainingPlan plan;
  private final byte[] text;
  private final int checkpointEvery;
  private final @Nullable CheckpointDirectory directory;
  private final Map<String, String> options;
  private final Listener listener;
  private Checkpoint last;
  private float[] losses;
  private int restarts;

  /** The last checkpoint's steps at the last restart. */
  private int restartSteps;

  /** Hears of the run's progress. */
  interface Listener {
    /** The actors have the model and will make the step after {@code steps}. */
    void started(long parameters, int steps);

    /** More steps are done; {@code losses} has all of them. */
    void progressed(float[] losses);

    /** A checkpoint was taken. */
    void checkpointTaken(int steps);

    /** An actor was lost, and the run will resume after {@code steps}. */
    void actorLost(String who, int steps);
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
    restartSteps = last.steps();
  }

  /**
   * Trains until the plan's last step.
   *
   * @param start starts the actors
   */
  Result complete(Supplier<TrainingActors> start, String prompt, int sample) throws IOException {
    while (true) {
      TrainingActors actors;
      try {
        actors = start.get();
      } catch (RuntimeException failed) {
        restartAfter(failed, TrainingActors.isLoss(failed) ? "an actor" : null);
        continue;
      }
      try (actors) {
        try {
          return runUntilLoss(actors, prompt, sample);
        } catch (RuntimeException failed) {
          restartAfter(failed, actors.lostActor(failed));
        }
      }
    }
  }

  private void restartAfter(RuntimeException failed, @Nullable String lostActor) {
    restarts = last.steps() > restartSteps ? 1 : restarts + 1;
    restartSteps = last.steps();
    if (lostActor == null || restarts > MOST_RESTARTS) {
      throw failed;
    }
    listener.actorLost(lostActor, last.steps());
  }

  private Result runUntilLoss(TrainingActors actors, String prompt, int sample) throws IOException {
    losses = last.losses();
    listener.started(actors.begin(plan, text, last.steps(), last.state()), last.steps());
    while (losses.length < plan.steps) {
      int until = Math.min(plan.steps, (losses.length / checkpointEvery + 1) * checkpointEvery);
      append(actors.train(Math.min(STEPS_BETWEEN_REPORTS, until - losses.length)));
      listener.progressed(losses);
      if (losses.length == until) {
        takeCheckpoint(actors.state());
      }
    }
    double heldOutLoss = actors.heldOutLoss();
    return new Result(heldOutLoss, sample == 0 ? "" : actors.sample(prompt, sample));
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

  private void takeCheckpoint(byte[] state) throws IOException {
    last = new Checkpoint(options, losses, state);
    if (directory != null) {
      directory.write(last);
    }
    listener.checkpointTaken(last.steps());
  }
}
