package io.nvrar.examples.llama.weights;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
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
    int keyValueHeads(int heads) {
      return 8;
    }

    @Override
    int maxPositions() {
      return 131_072;
    }

    @Override
    Optional<Integer> slidingWindow(JsonFile config, int layers) {
      return window(config);
    }
  },
  QWEN2("Qwen2ForCausalLM", "qwen2") {
    @Override
    int keyValueHeads(int heads) {
      return 32;
    }

    @Override
    int maxPositions() {
      return 32_768;
    }

    @Override
    boolean hasQueryKeyValueBias(JsonFile config) {
      return true;
    }

    @Override
    Optional<Integer> slidingWindow(JsonFile config, int layers) {
      Optional<Integer> window =
          config.flag("use_sliding_window") ? window(config) : Optional.empty();
      if (config.has(LAYER_TYPES)) {
        if (!hasSlidingLayer(config, layers)) {
          return Optional.empty();
        }
        if (window.isEmpty()) {
          throw new ModelException(
              config.name() + " has layers of sliding_attention, and no sliding window in use.");
        }
        return window;
      }
      // Only the layers from max_window_layers on have it.
      return config.number("max_window_layers", 28) < layers ? window : Optional.empty();
    }
  };

  private static final String LAYER_TYPES = "layer_types";

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
    for (ModelFamily family : values()) {
      // transformers goes by the type: models that were renamed are loaded as what they are.
      if (type.filter(family.type::equals).isPresent()
          && architectures.stream().allMatch(ModelFamily::isOwnName)) {
        return family;
      }
    }
    throw new ModelException(
        String.format(
            Locale.ROOT,
            "%s describes %s (%s), and this decoder reads %s.",
            config.name(),
            architectures.isEmpty() ? "a model" : JsonFile.quoted(String.join(", ", architectures)),
            JsonFile.quoted(type.orElse("of no type")),
            Arrays.stream(values())
                .map(family -> family.architecture)
                .collect(Collectors.joining(", "))));
  }

  private static boolean isOwnName(String architecture) {
    return architecture.endsWith("ForCausalLM")
        && Arrays.stream(values()).noneMatch(known -> known.architecture.equals(architecture));
  }

  /** The key/value heads where the key is absent: what transformers takes. */
  int keyValueHeads(int heads) {
    return heads;
  }

  /** The longest sequence where the key is absent: what transformers takes. */
  int maxPositions() {
    return 2048;
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

  private static boolean hasSlidingLayer(JsonFile config, int layers) {
    List<String> types = config.strings(LAYER_TYPES);
    if (types.size() != layers) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s names %d layer_types, and has %d layers.",
              config.name(),
              types.size(),
              layers));
    }
    for (String type : types) {
      if (!type.equals("full_attention") && !type.equals("sliding_attention")) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s has a layer of the type %s, and this decoder knows full_attention only.",
                config.name(),
                JsonFile.quoted(type)));
      }
    }
    return types.contains("sliding_attention");
  }

  private static Optional<Integer> window(JsonFile config) {
    return config.has("sliding_window") || !config.mentions("sliding_window")
        ? Optional.of(config.positive("sliding_window", DEFAULT_SLIDING_WINDOW))
        : Optional.empty();
  }
}
