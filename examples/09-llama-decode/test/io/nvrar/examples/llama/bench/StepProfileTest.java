package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.examples.llama.engine.cuda.StepTrace;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class StepProfileTest {
  private static final StepTrace TRACE =
      new StepTrace(
          new String[] {"begin", "embed", "qkv", "o", "qkv", "o", "head"},
          new int[] {-1, -1, 0, 0, 1, 1, -1},
          new double[] {0, 2, 12, 16, 26, 30, 50});

  @Test
  void aKernelTakesFromTheEndOfTheOneBeforeToItsOwnAndALayerThatOfItsKernels(
      @TempDir Path directory) throws Exception {
    Path file = directory.resolve("trace.json");
    new StepProfile(new BenchCell(1, 64, 8, 0, 1), 0.04, List.of(TRACE, TRACE)).write(file);
    JsonObject root = JsonParser.parseString(Files.readString(file)).getAsJsonObject();
    assertThat(spans(root.getAsJsonArray("traceEvents"), 1))
        .containsExactly(
            "0 embed 0.0 2.0",
            "0 qkv 2.0 10.0",
            "0 o 12.0 4.0",
            "1 layer 0 2.0 14.0",
            "0 qkv 16.0 10.0",
            "0 o 26.0 4.0",
            "1 layer 1 16.0 14.0",
            "0 head 30.0 20.0");
    assertThat(root.getAsJsonObject("otherData").get("step_us_without_stamps").getAsDouble())
        .isEqualTo(40);
    assertThat(root.getAsJsonObject("otherData").get("step_us_with_stamps").getAsDouble())
        .isEqualTo(50);
  }

  @Test
  void theSentenceSaysWhatKernelsTakeTogetherTheMostFirst() {
    assertThat(new StepProfile(new BenchCell(1, 64, 8, 0, 1), 0.04, List.of(TRACE)).sentence())
        .isEqualTo(
            "At batch 1 and context 64 a step with stamps takes 50 us on rank 0, and 40 us without:"
                + " qkv 20.0 (40 %), head 20.0 (40 %), o 8.0 (16 %), embed 2.0 (4 %).");
  }

  private static List<String> spans(JsonArray events, int rank) {
    List<String> spans = new ArrayList<>();
    for (JsonElement element : events) {
      JsonObject event = element.getAsJsonObject();
      if (event.get("ph").getAsString().equals("X") && event.get("pid").getAsInt() == rank) {
        spans.add(
            String.format(
                Locale.ROOT,
                "%s %s %s %s",
                event.get("tid").getAsString(),
                event.get("name").getAsString(),
                event.get("ts").getAsString(),
                event.get("dur").getAsString()));
      }
    }
    return spans;
  }
}
