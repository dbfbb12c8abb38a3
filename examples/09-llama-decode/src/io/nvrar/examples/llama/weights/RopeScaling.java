package io.nvrar.examples.llama.weights;

import java.util.Locale;

/** How rotary position embeddings turn: the angle per position of each pair of a head's numbers. */
public sealed interface RopeScaling {

  /** The base of the geometric series of frequencies. */
  double theta();

  /** Scales an unscaled frequency, radians per position. */
  double scale(double frequency);

  /** As trained. */
  record Unscaled(double theta) implements RopeScaling {
    @Override
    public double scale(double frequency) {
      return frequency;
    }
  }

  /** Positions squeezed by a factor. */
  record Linear(double theta, double factor) implements RopeScaling {
    @Override
    public double scale(double frequency) {
      return frequency / factor;
    }
  }

  /**
   * Llama 3.1's: wavelengths that are long against the original context are squeezed, short ones
   * are kept, and those between are interpolated.
   */
  record Llama3(
      double theta,
      double factor,
      double lowFrequencyFactor,
      double highFrequencyFactor,
      double originalPositions)
      implements RopeScaling {
    @Override
    public double scale(double frequency) {
      double wavelength = 2 * Math.PI / frequency;
      if (wavelength < originalPositions / highFrequencyFactor) {
        return frequency;
      }
      if (wavelength > originalPositions / lowFrequencyFactor) {
        return frequency / factor;
      }
      double smooth =
          (originalPositions / wavelength - lowFrequencyFactor)
              / (highFrequencyFactor - lowFrequencyFactor);
      return (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }

  /**
   * Reads it from a configuration in the spelling of transformers 4 or 5.
   *
   * @param maxPositions the longest sequence
   */
  static RopeScaling from(JsonFile config, int maxPositions) {
    double oldTheta = config.number("rope_theta", 10000);
    // The old spelling wins where there are both, as a whole: so in transformers.
    JsonFile rope =
        config
            .object("rope_scaling")
            .filter(old -> !old.isEmpty())
            .or(() -> config.object("rope_parameters"))
            .orElseGet(() -> JsonFile.parse(config.name(), "{}"));
    for (String key : rope.keys()) {
      if (rope.isObject(key)) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s rotates layers of the type %s by parameters of their own, and this decoder all layers alike.",
                config.name(),
                JsonFile.quoted(key)));
      }
    }
    double theta = positive(rope, "rope_theta", oldTheta);
    if (rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1)) != 1) {
      throw new ModelException(
          config.name() + " rotates a part of each head, and this decoder only whole heads.");
    }
    String type = rope.string("rope_type").or(() -> rope.string("type")).orElse("default");
    return switch (type) {
      case "default" -> new Unscaled(theta);
      case "linear" -> new Linear(theta, positive(rope, "factor"));
      case "llama3" ->
          new Llama3(
              theta,
              positive(rope, "factor"),
              positive(rope, "low_freq_factor"),
              positive(rope, "high_freq_factor"),
              positive(
                  // Beside the parameters, this key wins.
                  config.has("original_max_position_embeddings") ? config : rope,
                  "original_max_position_embeddings",
                  maxPositions));
      default ->
          throw new ModelException(
              config.name()
                  + " has the rope type "
                  + JsonFile.quoted(type)
                  + ", and this decoder knows default, linear and llama3.");
    };
  }

  private static double positive(JsonFile rope, String key) {
    if (!rope.has(key)) {
      throw new ModelException(rope.name() + " lacks " + key + " in its rope parameters.");
    }
    return positive(rope, key, 1);
  }

  private static double positive(JsonFile rope, String key, double absent) {
    double value = rope.number(key, absent);
    if (!(value > 0) || Double.isInfinite(value)) {
      throw new ModelException(rope.name() + ": " + key + " is " + value + ", not positive.");
    }
    return value;
  }
}
