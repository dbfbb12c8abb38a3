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

  /** The argument of {@link #begin}. */
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
   * Starts a run or resumes one, from the driver's text and state.
   *
   * @return the number of trained values
   */
  public long begin(Beginning beginning) {
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
   * Makes steps.
   *
   * @param count the number of steps
   * @return the mean loss of each step
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

  /** The parameters and the optimizer's moments, from which {@link #begin} resumes. */
  public byte[] state() {
    return replica().state();
  }

  /** Continues a prompt by {@code count} characters. */
  public String sample(String prompt, int count) {
    return replica().sample(prompt, count);
  }

  private Replica replica() {
    if (replica == null) {
      throw new TrainingException("begin was not called");
    }
    return replica;
  }
}
