package io.nvrar.examples.training;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * The model, the schedule and the seed of a run. The same plan and text give the same run. A class,
 * not a record, because Ray's serializer cannot read records back.
 */
final class TrainingPlan implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The number of layers. */
  final int layers;

  /** The size of a character's vector. */
  final int width;

  /** The attention heads of a layer, which divide the width. */
  final int heads;

  /** The characters that the model sees at once. */
  final int context;

  /** The sequences of a step, on all ranks together. */
  final int batch;

  /** The steps of the whole run, by which the learning rate falls. */
  final int steps;

  /** The greatest learning rate. */
  final float rate;

  /** Of the first weights and of the order of the text. */
  final long seed;

  /**
   * Creates a plan.
   *
   * @throws TrainingException if something is out of range
   */
  TrainingPlan(
      int layers, int width, int heads, int context, int batch, int steps, float rate, long seed) {
    this.layers = within("--layers", layers, 1, 64);
    this.width = within("--width", width, 1, 4096);
    this.heads = within("--heads", heads, 1, 64);
    this.context = within("--context", context, 2, 4096);
    this.batch = within("--batch", batch, 1, 4096);
    this.steps = within("--steps", steps, 1, 10_000_000);
    this.rate = rate;
    this.seed = seed;
    if (width % heads != 0) {
      throw new TrainingException(
          String.format(Locale.ROOT, "--heads is %d, must divide --width, %d", heads, width));
    }
    if (!(rate > 0 && rate < Float.POSITIVE_INFINITY)) {
      throw new TrainingException(
          String.format(Locale.ROOT, "--rate is %s, must be a number above 0", rate));
    }
  }

  private static int within(String name, int value, int least, int most) {
    if (value < least || value > most) {
      throw new TrainingException(
          String.format(Locale.ROOT, "%s is %d, must be %d to %d", name, value, least, most));
    }
    return value;
  }

  /** The number of trained values of a model with so many different characters. */
  long parameters(int vocabulary) {
    long ofLayer = 12L * width * width + 13L * width;
    return (long) (vocabulary + context + 2) * width + layers * ofLayer;
  }

  /** The command's options with their values. A checkpoint is resumed only with the same ones. */
  Map<String, String> options() {
    Map<String, String> options = new LinkedHashMap<>();
    options.put("--layers", Integer.toString(layers));
    options.put("--width", Integer.toString(width));
    options.put("--heads", Integer.toString(heads));
    options.put("--context", Integer.toString(context));
    options.put("--batch", Integer.toString(batch));
    options.put("--steps", Integer.toString(steps));
    options.put("--rate", Float.toString(rate));
    options.put("--seed", Long.toString(seed));
    return options;
  }
}
