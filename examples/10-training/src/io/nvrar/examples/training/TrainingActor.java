package io.nvrar.examples.training;

import ai.djl.engine.Engine;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * A rank, in a process of its own. All methods return a value, because Ray drops the exceptions of
 * void methods.
 */
public final class TrainingActor implements CollectiveActor {
  private @Nullable Replica replica;

  /** What an actor begins or goes on with. */
  static final class Beginning implements Serializable {
    private static final long serialVersionUID = 1L;

    final String group;
    final TrainingPlan plan;
    final byte[] text;
    final int steps;
    final byte[] state;

    Beginning(String group, TrainingPlan plan, byte[] text, int steps, byte[] state) {
      this.group = group;
      this.plan = plan;
      this.text = text;
      this.steps = steps;
      this.state = state;
    }
  }

  /**
   * Loads PyTorch, whose libraries are unpacked once on each host.
   *
   * @return its version
   */
  public String loadEngine() {
    return Engine.getEngine("PyTorch").getVersion();
  }

  /**
   * Begins or goes on, with what the driver has.
   *
   * @return the number of trained values
   */
  public long begin(Beginning beginning) {
    if (replica != null) {
      replica.close();
      replica = null;
    }
    Text text = Text.of(beginning.text, "of the driver", beginning.plan.context);
    replica =
        new Replica(
            RayCollectives.group(beginning.group),
            beginning.plan,
            text,
            beginning.steps,
            beginning.state);
    return replica.parameterCount();
  }

  /**
   * Makes so many steps.
   *
   * @return the loss of each
   */
  public float[] train(int count) {
    float[] losses = new float[count];
    for (int i = 0; i < count; i++) {
      losses[i] = replica().step();
    }
    return losses;
  }

  /** The mean loss of the text that is held out; all actors compute it together. */
  public double heldOutLoss() {
    return replica().heldOutLoss();
  }

  /** What {@link #begin} of all actors can go on with; the same in all of them. */
  public byte[] state() {
    return replica().state();
  }

  /** Goes on with a text. */
  public String sample(String prompt, int count) {
    return replica().sample(prompt, count);
  }

  /** Answers if the actor lives. */
  public boolean isAlive() {
    return true;
  }

  private Replica replica() {
    if (replica == null) {
      throw new TrainingException("begin was not called");
    }
    return replica;
  }
}
