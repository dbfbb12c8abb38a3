package io.nvrar.examples.llama.weights;

import java.io.Serializable;
import java.nio.file.Path;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Which model is decoded: one of a directory, or one of random weights, which needs no files. Ray
 * carries it to the actors.
 */
public final class ModelSource implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String name;
  // Of a directory the configuration is read where it is asked for, as the weights are.
  private final @Nullable String configJson;
  private final long seed;

  private ModelSource(String name, @Nullable String configJson, long seed) {
    this.name = name;
    this.configJson = configJson;
    this.seed = seed;
  }

  /** A model directory, at the same path for all that read it. */
  public static ModelSource of(Path directory) {
    return new ModelSource(directory.toString(), null, 0);
  }

  /** Random weights. */
  public static ModelSource of(RandomModel model) {
    return new ModelSource(model.name(), model.configJson(), model.seed());
  }

  /** What its config.json says, and whether its files have an output head. */
  public LlamaConfig config() {
    if (configJson != null) {
      return random(configJson).config();
    }
    LlamaConfig config = LlamaConfig.read(Path.of(name));
    try (TensorSource tensors = open(bytes -> {})) {
      return LlamaTensors.withOwnHead(tensors, config);
    }
  }

  /**
   * Its tensors.
   *
   * @param progress hears how many bytes were read since it heard last, from whichever thread read
   *     them
   */
  public TensorSource open(LongConsumer progress) {
    return configJson == null
        ? Checkpoint.open(Path.of(name), progress)
        : random(configJson).tensors(progress);
  }

  /** Its directory; null for random weights, which have no tokenizer either. */
  public @Nullable Path directory() {
    return configJson == null ? Path.of(name) : null;
  }

  /** The directory, or what the random weights are called. */
  @Override
  public String toString() {
    return name;
  }

  private RandomModel random(String json) {
    return RandomModel.parse(name, json, seed);
  }
}
