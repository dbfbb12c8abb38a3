package io.nvrar.examples.llama.weights;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The names and shapes of a Llama's tensors in a checkpoint. */
public final class LlamaTensors {
  static final String EMBEDDING = "model.embed_tokens.weight";
  static final String FINAL_NORM = "model.norm.weight";
  static final String HEAD = "lm_head.weight";

  static final String ATTENTION_NORM = "input_layernorm.weight";
  static final String QUERY = "self_attn.q_proj";
  static final String KEY = "self_attn.k_proj";
  static final String VALUE = "self_attn.v_proj";
  static final String ATTENTION_OUTPUT = "self_attn.o_proj";
  static final String MLP_NORM = "post_attention_layernorm.weight";
  static final String GATE = "mlp.gate_proj";
  static final String UP = "mlp.up_proj";
  static final String DOWN = "mlp.down_proj";

  private static final List<String> PROJECTIONS =
      List.of(QUERY, KEY, VALUE, ATTENTION_OUTPUT, GATE, UP, DOWN);

  private LlamaTensors() {}

  /** A tensor or a projection of a layer. */
  static String inLayer(int layer, String name) {
    return "model.layers." + layer + "." + name;
  }

  /** The matrix of a projection. */
  static String weight(String projection) {
    return projection + ".weight";
  }

  /** The bias of a projection. */
  static String bias(String projection) {
    return projection + ".bias";
  }

  /**
   * Checks that a source has all tensors, of known formats and right shapes, and no bias that the
   * configuration leaves out.
   *
   * @throws ModelException about the first that is not so
   */
  public static void check(TensorSource source, LlamaConfig config) {
    Map<String, List<Long>> shapes = shapes(config);
    shapes.forEach(source::require);
    for (int layer = 0; layer < config.layers(); layer++) {
      for (String projection : PROJECTIONS) {
        String bias = bias(inLayer(layer, projection));
        if (!shapes.containsKey(bias) && source.has(bias)) {
          throw new ModelException(
              String.format(
                  Locale.ROOT,
                  "The weights have %s, and by config.json there is no such bias.",
                  bias));
        }
      }
    }
  }

  /**
   * The configuration as the tensors are: where a file has an output head, it is not tied to the
   * embedding, whatever config.json says. So transformers does it, where the numbers differ.
   */
  static LlamaConfig withOwnHead(TensorSource source, LlamaConfig config) {
    return config.tiedEmbeddings() && source.has(HEAD) ? config.untied() : config;
  }

  /** The shapes of all tensors by their names. */
  static Map<String, List<Long>> shapes(LlamaConfig config) {
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
    shapes.put(inLayer(layer, ATTENTION_NORM), List.of(hidden));
    shapes.put(inLayer(layer, MLP_NORM), List.of(hidden));
    boolean bias = config.queryKeyValueBias();
    putLinear(shapes, inLayer(layer, QUERY), queries, hidden, bias);
    putLinear(shapes, inLayer(layer, KEY), keys, hidden, bias);
    putLinear(shapes, inLayer(layer, VALUE), keys, hidden, bias);
    boolean outputBias = config.attentionOutputBias();
    putLinear(shapes, inLayer(layer, ATTENTION_OUTPUT), hidden, queries, outputBias);
    putLinear(shapes, inLayer(layer, GATE), wide, hidden, config.mlpBias());
    putLinear(shapes, inLayer(layer, UP), wide, hidden, config.mlpBias());
    putLinear(shapes, inLayer(layer, DOWN), hidden, wide, config.mlpBias());
  }

  private static void putLinear(
      Map<String, List<Long>> shapes, String name, long outputs, long inputs, boolean bias) {
    shapes.put(weight(name), List.of(outputs, inputs));
    if (bias) {
      shapes.put(bias(name), List.of(outputs));
    }
  }
}
