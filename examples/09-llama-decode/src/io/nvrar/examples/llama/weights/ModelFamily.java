package io.nvrar.examples.llama.weights;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The architectures that the decoder knows: Llamas, but for the differences that are named here.
 */
enum ModelFamily {
  LLAMA("LlamaForCausalLM", "llama") {
    @Override
    boolean hasQueryKeyValueBias(JsonFile config) {
      return config.flag("attention_bias");
    }

    @Override
    boolean hasAttentionOutputBias(JsonFile config) {
      return config.flag("attention_bias");
    }

    @Override
    boolean hasMlpBias(JsonFile config) {
      return config.flag("mlp_bias");
    }
  },
  MISTRAL("MistralForCausalLM", "mistral") {
    @Override
    Optional<Integer> slidingWindow(JsonFile config, int layers) {
      return window(config);
    }
  },
  QWEN2("Qwen2ForCausalLM", "qwen2") {
    @Override
    boolean hasQueryKeyValueBias(JsonFile config) {
      return true;
    }

    @Override
    Optional<Integer> slidingWindow(JsonFile config, int layers) {
      // Only the layers from max_window_layers on have it, and only if it is switched on.
      boolean used =
          config.flag("use_sliding_window") && config.number("max_window_layers", 28) < layers;
      return used ? window(config) : Optional.empty();
    }
  };

  // What transformers takes where the key is absent. Where it is null, there is no window.
  private static final int DEFAULT_SLIDING_WINDOW = 4096;

  private final String architecture;
  private final String type;

  ModelFamily(String architecture, String type) {
    this.architecture = architecture;
    this.type = type;
  }

  /**
   * The family that a configuration names.
   *
   * @throws ModelException with the name of what is none of these
   */
  static ModelFamily of(JsonFile config) {
    List<String> architectures = config.strings("architectures");
    Optional<String> type = config.string("model_type");
    if (architectures.isEmpty() && type.isEmpty()) {
      return LLAMA;
    }
    for (ModelFamily family : values()) {
      if (type.orElse(family.type).equals(family.type)
          && (architectures.isEmpty() || architectures.contains(family.architecture))) {
        return family;
      }
    }
    throw new ModelException(
        "%s describes %s (%s), and this decoder reads %s."
            .formatted(
                config.name(),
                architectures.isEmpty()
                    ? "a model"
                    : JsonFile.quoted(String.join(", ", architectures)),
                JsonFile.quoted(type.orElse("of no type")),
                Arrays.stream(values())
                    .map(family -> family.architecture)
                    .collect(Collectors.joining(", "))));
  }

  /** Whether the q, k and v projections have biases. */
  boolean hasQueryKeyValueBias(JsonFile config) {
    return false;
  }

  /** Whether the o projection has a bias. */
  boolean hasAttentionOutputBias(JsonFile config) {
    return false;
  }

  /** Whether the gate, up and down projections have biases. */
  boolean hasMlpBias(JsonFile config) {
    return false;
  }

  /** How many positions attention looks back in some layer, if not to the first in all. */
  Optional<Integer> slidingWindow(JsonFile config, int layers) {
    return Optional.empty();
  }

  private static Optional<Integer> window(JsonFile config) {
    return config.has("sliding_window") || !config.mentions("sliding_window")
        ? Optional.of(config.positive("sliding_window", DEFAULT_SLIDING_WINDOW))
        : Optional.empty();
  }
}
