package io.nvrar.examples.training;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A run from its first step, or from a checkpoint, to its end. When an actor is lost, a fresh one
 * takes its place, and all go on from the last checkpoint: the losses are then those of a run in
 * which nothing was lost.
 */
final class TrainingRun {
  /** Between two reports. */
  private static final int STEPS_AT_ONCE = 5;

  /** Without a checkpoint between them; then it is not bad luck. */
  private static final int MOST_LOSSES = 3;

  private final TrainingPlan plan;
  private final byte[] text;
  private final int checkpointEvery;
  private final @Nullable CheckpointDirectory directory;
  private final Map<String, String> options;
  private final Listener listener;
  private Checkpoint last;
  private float[] losses;

  /** Hears how it goes. */
  interface Listener {
    /** Of so many parameters, from so many steps on. */
    void begins(long parameters, int steps);

    /** These are the losses of all steps so far. */
    void goesOn(float[] losses);

    /** A checkpoint was kept. */
    void kept(int steps);

    /** Ranks have fresh actors, and the run goes on from an earlier step. */
    void lost(List<Integer> ranks, int steps);
  }

  /**
   * With the last checkpoint, of no steps if it begins.
   *
   * @param directory where checkpoints are kept beyond this process; null for nowhere
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
   * @return the loss of the text that is held out
   */
  double complete(Trainers trainers) throws IOException {
    int lostSinceCheckpoint = 0;
    int checkpoint = last.steps();
    boolean begun = false;
    while (true) {
      try {
        if (!begun) {
          losses = last.losses();
          listener.begins(trainers.begin(plan, text, last.steps(), last.state()), last.steps());
          begun = true;
        }
        while (losses.length < plan.steps) {
          int until = Math.min(plan.steps, (losses.length / checkpointEvery + 1) * checkpointEvery);
          append(trainers.train(Math.min(STEPS_AT_ONCE, until - losses.length)));
          listener.goesOn(losses);
          if (losses.length == until) {
            keep(trainers.state());
          }
        }
        return trainers.heldOutLoss();
      } catch (RuntimeException failed) {
        lostSinceCheckpoint = last.steps() > checkpoint ? 1 : lostSinceCheckpoint + 1;
        checkpoint = last.steps();
        List<Integer> lost = lostSinceCheckpoint > MOST_LOSSES ? List.of() : trainers.replaceLost();
        if (lost.isEmpty()) {
          throw failed;
        }
        listener.lost(lost, last.steps());
        begun = false;
      }
    }
  }

  /** Of the steps so far; not copied. */
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
