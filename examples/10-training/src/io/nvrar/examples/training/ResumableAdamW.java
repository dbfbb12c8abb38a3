package io.nvrar.examples.training;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.nn.Parameter;
import ai.djl.training.optimizer.Optimizer;
import ai.djl.training.tracker.Tracker;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * AdamW whose moments can be saved: those of DJL's own AdamW are private. Weights decay; biases and
 * the parameters of layer norms do not.
 */
final class ResumableAdamW extends Optimizer {
  private static final float BETA1 = 0.9f;
  private static final float BETA2 = 0.99f;
  private static final float EPSILON = 1e-8f;
  private static final float DECAY = 0.1f;
  private static final int WARM_UP = 100;
  private static final float FINAL = 0.1f;

  private record Moments(NDArray mean, NDArray variance) {}

  private final Tracker rate;
  private final Map<String, Moments> moments = new HashMap<>();

  private ResumableAdamW(Builder builder, TrainingPlan plan) {
    super(builder);
    int warmUp = Math.min(WARM_UP, plan.steps / 10);
    Tracker falling =
        Tracker.cosine()
            .setBaseValue(plan.rate)
            .optFinalValue(plan.rate * FINAL)
            .setMaxUpdates(Math.max(1, plan.steps - warmUp))
            .build();
    rate =
        Tracker.warmUp()
            .optWarmUpBeginValue(plan.rate / Math.max(1, warmUp))
            .optWarmUpSteps(warmUp)
            .setMainTracker(falling)
            .build();
  }

  /**
   * Creates an optimizer whose moments are zero.
   *
   * @param manager what the moments belong to
   * @param steps that have been done
   */
  static ResumableAdamW of(
      TrainingPlan plan, int steps, NDManager manager, List<Parameter> parameters) {
    ResumableAdamW optimizer = new ResumableAdamW(new Builder().optBeginNumUpdate(steps), plan);
    for (Parameter parameter : parameters) {
      optimizer.moments.put(
          parameter.getId(),
          new Moments(manager.zeros(parameter.getShape()), manager.zeros(parameter.getShape())));
    }
    return optimizer;
  }

  @Override
  public void update(String parameterId, NDArray weight, NDArray gradient) {
    int step = updateCount(parameterId);
    float now = rate.getNewValue(step);
    double corrected = now * Math.sqrt(1 - Math.pow(BETA2, step)) / (1 - Math.pow(BETA1, step));
    Moments of = of(parameterId);
    // It sets the gradient to 0 for the next step, too.
    weight
        .getNDArrayInternal()
        .adamUpdate(
            new NDList(weight, gradient, of.mean, of.variance),
            new NDList(weight),
            now,
            (float) corrected,
            weight.getShape().dimension() > 1 ? DECAY : 0,
            rescaleGrad,
            clipGrad,
            BETA1,
            BETA2,
            EPSILON,
            false,
            true);
  }

  /** The mean of the gradients, and that of their squares; not copied. */
  List<NDArray> moments(Parameter parameter) {
    Moments of = of(parameter.getId());
    return List.of(of.mean, of.variance);
  }

  private Moments of(String parameterId) {
    return Objects.requireNonNull(moments.get(parameterId));
  }

  private static final class Builder extends OptimizerBuilder<Builder> {
    @Override
    protected Builder self() {
      return this;
    }
  }
}
