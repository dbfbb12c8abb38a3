package io.nvrar.examples.llama.weights;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/** The sizes in which Llama 3.1 was published. */
public enum ModelShape {
  /** 8 billion parameters. */
  LLAMA_8B("8b", 4096, 14336, 32, 32),
  /** 70 billion parameters. */
  LLAMA_70B("70b", 8192, 28672, 80, 64),
  /** 405 billion parameters. */
  LLAMA_405B("405b", 16384, 53248, 126, 128);

  private final String label;
  private final int hiddenSize;
  private final int intermediateSize;
  private final int layers;
  private final int heads;

  ModelShape(String label, int hiddenSize, int intermediateSize, int layers, int heads) {
    this.label = label;
    this.hiddenSize = hiddenSize;
    this.intermediateSize = intermediateSize;
    this.layers = layers;
    this.heads = heads;
  }

  /** The shape of a label, in upper or lower case. */
  public static Optional<ModelShape> labelled(String label) {
    return Arrays.stream(values())
        .filter(shape -> shape.label.equals(label.toLowerCase(Locale.ROOT)))
        .findFirst();
  }

  /** The labels of all shapes. */
  public static String labels() {
    return Arrays.stream(values()).map(ModelShape::label).collect(Collectors.joining(", "));
  }

  /** What users call it. */
  public String label() {
    return label;
  }

  /** Its config.json. */
  String configJson() {
    return String.format(
        Locale.ROOT,
        """
    {
      "architectures": ["LlamaForCausalLM"],
      "model_type": "llama",
      "hidden_size": %d,
      "intermediate_size": %d,
      "num_hidden_layers": %d,
      "num_attention_heads": %d,
      "num_key_value_heads": 8,
      "vocab_size": 128256,
      "max_position_embeddings": 131072,
      "rms_norm_eps": 1e-05,
      "rope_theta": 500000.0,
      "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
      },
      "hidden_act": "silu",
      "attention_bias": false,
      "mlp_bias": false,
      "tie_word_embeddings": false,
      "bos_token_id": 128000,
      "eos_token_id": 128001,
      "torch_dtype": "bfloat16"
    }
    """,
        hiddenSize,
        intermediateSize,
        layers,
        heads);
  }
}
