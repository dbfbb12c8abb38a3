package io.nvrar.examples.llama.text;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import io.nvrar.examples.llama.weights.ModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** The tokenizer of a model directory's {@code tokenizer.json}, offline. For the driver only. */
public final class LlamaTokenizer implements AutoCloseable {
  private final HuggingFaceTokenizer tokenizer;

  private LlamaTokenizer(HuggingFaceTokenizer tokenizer) {
    this.tokenizer = tokenizer;
  }

  /**
   * Reads it.
   *
   * @throws ModelException if there is none or it cannot be read
   */
  public static LlamaTokenizer read(Path directory) {
    Path file = directory.resolve("tokenizer.json");
    if (!Files.isRegularFile(file)) {
      throw new ModelException(
          "There is no " + file + "; without a tokenizer, give --prompt-ids and --print-ids.");
    }
    stayOffline();
    try {
      return new LlamaTokenizer(
          HuggingFaceTokenizer.newInstance(
              file, Map.of("addSpecialTokens", "true", "truncation", "false", "padding", "false")));
    } catch (IOException | RuntimeException e) {
      throw new ModelException(file + " cannot be read: " + e.getMessage() + ".", e);
    }
  }

  // DJL reports its use to a metadata server and may fetch natives; the jar holds what is needed.
  private static void stayOffline() {
    System.setProperty("OPT_OUT_TRACKING", "true");
    System.setProperty("ai.djl.offline", "true");
  }

  /** Encodes a prompt; the tokenizer's post-processor adds the begin token as transformers does. */
  public int[] encode(String text) {
    return encode(text, true);
  }

  int[] encode(String text, boolean addSpecialTokens) {
    long[] ids = tokenizer.encode(text, addSpecialTokens, false).getIds();
    int[] tokens = new int[ids.length];
    for (int i = 0; i < ids.length; i++) {
      tokens[i] = Math.toIntExact(ids[i]);
    }
    return tokens;
  }

  /** Decodes tokens; special ones have no text. */
  public String decode(int[] tokens) {
    return decode(tokens, true);
  }

  String decode(int[] tokens, boolean skipSpecialTokens) {
    long[] ids = new long[tokens.length];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = tokens[i];
    }
    return tokenizer.decode(ids, skipSpecialTokens);
  }

  @Override
  public void close() {
    tokenizer.close();
  }
}
