package io.nvrar.examples.llama.weights;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The names and shapes of a Llama's tensors in a checkpoint. */
public final class LlamaTensors {
  static final String EMBEDDING = "model.embed_tokens.weight";
  static final String FINAL_NORM = "model.norm.weight";
  static final String HEAD = "lm_head.weight";

  private LlamaTensors() {}

  /** A tensor of a layer. */
  static String inLayer(int layer, String name) {
    return "model.layers." + layer + "." + name;
  }

  /**
   * Checks that a checkpoint has all tensors, of known formats and right shapes.
   *
   * @throws ModelException about the first that is not so
   */
  public static void check(Checkpoint checkpoint, LlamaConfig config) {
    shapes(config).forEach(checkpoint::require);
  }

  private static Map<String, List<Long>> shapes(LlamaConfig config) {
    long hidden = config.hiddenSize();
    long vocabulary = config.vocabularySize();
    Map<String, List<Long>> shapes = new LinkedHashMap<>();
    shapes.put(EMBEDDING, List.of(vocabulary, hidden));
    if (!config.tiedEmbeddings()) {
      shapes.put(HEAD, List.of(vocabulary, hidden));
    }
    shapes.put(FINAL_NORM, List.of(hidden));
    for (int layer = 0; layer < config.layers(); layer++) {
      putLayer(shapes, config, layer);
    }
    return shapes;
  }

  private static void putLayer(Map<String, List<Long>> shapes, LlamaConfig config, int layer) {
    long hidden = config.hiddenSize();
    long queries = (long) config.heads() * config.headSize();
    long keys = (long) config.keyValueHeads() * config.headSize();
    long wide = config.intermediateSize();
    shapes.put(inLayer(layer, "input_layernorm.weight"), List.of(hidden));
    shapes.put(inLayer(layer, "post_attention_layernorm.weight"), List.of(hidden));
    boolean bias = config.attentionBias();
    putLinear(shapes, inLayer(layer, "self_attn.q_proj"), queries, hidden, bias);
    putLinear(shapes, inLayer(layer, "self_attn.k_proj"), keys, hidden, bias);
    putLinear(shapes, inLayer(layer, "self_attn.v_proj"), keys, hidden, bias);
    putLinear(shapes, inLayer(layer, "self_attn.o_proj"), hidden, queries, bias);
    putLinear(shapes, inLayer(layer, "mlp.gate_proj"), wide, hidden, config.mlpBias());
    putLinear(shapes, inLayer(layer, "mlp.up_proj"), wide, hidden, config.mlpBias());
    putLinear(shapes, inLayer(layer, "mlp.down_proj"), hidden, wide, config.mlpBias());
  }

  private static void putLinear(
      Map<String, List<Long>> shapes, String name, long outputs, long inputs, boolean bias) {
    shapes.put(name + ".weight", List.of(outputs, inputs));
    if (bias) {
      shapes.put(name + ".bias", List.of(outputs));
    }
  }
}
