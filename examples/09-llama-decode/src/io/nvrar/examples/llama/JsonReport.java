package io.nvrar.examples.llama;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.nvrar.examples.llama.generate.DecodeRequest;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The results of a run as one JSON object. */
final class JsonReport {
  private final JsonObject root = new JsonObject();
  private final JsonArray outputs = new JsonArray();

  JsonReport(String model, int ranks, boolean onGpus, @Nullable Long seed) {
    root.addProperty("model", model);
    root.addProperty("ranks", ranks);
    root.addProperty("backend", onGpus ? "cuda" : "cpu");
    if (seed != null) {
      root.addProperty("seed", seed);
    }
    root.add("outputs", outputs);
  }

  void add(DecodeRequest request, int sequence, @Nullable String prompt, Generated generated) {
    JsonObject output = new JsonObject();
    if (prompt != null) {
      output.addProperty("prompt", prompt);
    }
    JsonArray promptIds = new JsonArray();
    for (int token : request.prompt(sequence)) {
      promptIds.add(token);
    }
    output.add("prompt_ids", promptIds);
    output.add("generated_ids", array(generated.tokens()));
    if (generated.text() != null) {
      output.addProperty("text", generated.text());
    }
    output.addProperty("finish_reason", generated.finishReason());
    outputs.add(output);
  }

  void add(DecodeSummary summary) {
    JsonObject statistics = new JsonObject();
    statistics.addProperty("startup_seconds", summary.startupSeconds());
    statistics.addProperty("time_to_first_token_seconds", summary.firstTokenSeconds());
    if (!summary.prefill().isEmpty()) {
      statistics.addProperty("prefill", summary.prefill());
    }
    statistics.addProperty("decode_seconds", summary.decodeSeconds());
    statistics.addProperty("generated_tokens", summary.generatedTokens());
    statistics.addProperty("tokens_per_second", summary.tokensPerSecond());
    if (summary.collectiveShare() >= 0) {
      statistics.addProperty("collective_share", summary.collectiveShare());
    }
    root.add("statistics", statistics);
  }

  /** In ASCII, so that it does not depend on the console's encoding. */
  @Override
  public String toString() {
    StringBuilder ascii = new StringBuilder();
    for (char c : root.toString().toCharArray()) {
      if (c < 0x7f) {
        ascii.append(c);
      } else {
        ascii.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
      }
    }
    return ascii.toString();
  }

  private static JsonArray array(List<Integer> numbers) {
    JsonArray array = new JsonArray();
    numbers.forEach(array::add);
    return array;
  }
}
