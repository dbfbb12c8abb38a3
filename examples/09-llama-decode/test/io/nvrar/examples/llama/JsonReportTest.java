package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.text.StreamingDetokenizer;
import java.util.List;
import org.junit.jupiter.api.Test;

final class JsonReportTest {

  @Test
  void theReportIsOneLineOfAsciiThatSaysWhatWasGenerated() {
    StreamingDetokenizer detokenizer =
        new StreamingDetokenizer(tokens -> "é\n".repeat(tokens.length), new int[] {5});
    Generated generated = new Generated(detokenizer, 3, List.of(9));
    generated.add(7);
    generated.add(9);
    JsonReport report = new JsonReport("/models/naïve", 4, true, 42L);
    report.add(
        new DecodeRequest(new int[][] {{5}}, 3, false, false, Sampling.greedy()),
        0,
        "a \"prompt\"",
        generated);
    report.add(new DecodeSummary(1, 2, "slices", 3, 4, 5, 0.5));

    String text = report.toString();

    assertThat(text).isASCII().doesNotContain("\n");
    JsonObject parsed = JsonParser.parseString(text).getAsJsonObject();
    assertThat(parsed.get("model").getAsString()).isEqualTo("/models/naïve");
    assertThat(parsed.get("seed").getAsLong()).isEqualTo(42);
    JsonObject output = parsed.getAsJsonArray("outputs").get(0).getAsJsonObject();
    assertThat(output.get("prompt").getAsString()).isEqualTo("a \"prompt\"");
    assertThat(output.get("generated_ids")).hasToString("[7,9]");
    assertThat(output.get("text").getAsString()).isEqualTo("é\né\n");
    assertThat(output.get("finish_reason").getAsString()).isEqualTo("stop");
    assertThat(parsed.getAsJsonObject("statistics").get("prefill").getAsString())
        .isEqualTo("slices");
    assertThat(parsed.getAsJsonObject("statistics").get("collective_share").getAsDouble())
        .isEqualTo(0.5);
  }

  @Test
  void aSequenceWithoutAnEndTokenEndsByItsLength() {
    Generated generated = new Generated(null, 2, List.of(9));
    generated.add(1);
    assertThat(generated.isFinished()).isFalse();
    generated.add(2);
    assertThat(generated.isFinished()).isTrue();
    assertThat(generated.finishReason()).isEqualTo("length");
    assertThat(generated.text()).isNull();
  }
}
