package io.nvrar.examples.llama.weights;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A model of any shape with random weights in bf16, which needs no files.
 *
 * @param name what messages call it
 * @param configJson its config.json
 * @param config what that says
 * @param seed what the weights are made from
 */
public record RandomModel(String name, String configJson, LlamaConfig config, long seed) {

  /**
   * Describes a model.
   *
   * @param fileOrShape a config.json, or the label of a {@link ModelShape}
   * @param layers how many layers instead of those of the configuration
   * @param seed another seed makes other weights
   * @throws ModelException if there is no such file, or it describes no model that can be decoded
   */
  public static RandomModel of(String fileOrShape, @Nullable Integer layers, long seed) {
    JsonFile json = config(fileOrShape);
    if (layers != null) {
      json.set("num_hidden_layers", layers);
      // It has an entry for each layer, all the same in what can be decoded.
      json.remove("layer_types");
    }
    json.remove("dtype");
    json.set("torch_dtype", "bfloat16");
    String size = layers == null ? "" : ", layers: " + layers;
    return parse("random weights of " + fileOrShape + size, json.text(), seed);
  }

  /** Describes a model whose config.json is at hand. */
  static RandomModel parse(String name, String configJson, long seed) {
    JsonFile json = JsonFile.parse(name, configJson);
    return new RandomModel(name, configJson, LlamaConfig.of(json, json), seed);
  }

  private static JsonFile config(String fileOrShape) {
    Optional<ModelShape> shape = ModelShape.labelled(fileOrShape);
    if (shape.isPresent()) {
      return JsonFile.parse(shape.get().label(), shape.get().configJson());
    }
    Path file = Path.of(fileOrShape);
    if (!Files.isRegularFile(file)) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "There is no file %s, and the shapes without one are %s.",
              fileOrShape,
              ModelShape.labels()));
    }
    return JsonFile.read(file, LlamaConfig.MAX_BYTES);
  }

  /** The weights; {@code progress} hears how many bytes were made since it heard last. */
  public TensorSource tensors(LongConsumer progress) {
    return new RandomTensors(config, seed, progress);
  }
}
