package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.Main;
import io.nvrar.tools.bench.results.ResultLine;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code bin/nvrar decode-bench} with models that are small. */
@GpuTest
class DecodeBenchGpuIT {
  private static final Duration LIMIT = Duration.ofMinutes(2);

  // Heads of 64 numbers are for the fast kernels, those of 48 for the plain ones.
  @ParameterizedTest(name = "heads of {0}")
  @ValueSource(ints = {64, 48})
  void stepsAreTimedOnEveryGpuAndTheirTokensAreRight(
      int headSize, RayCluster cluster, @TempDir Path directory) throws Exception {
    int ranks = Math.min(Integer.highestOneBit(cluster.gpus()), 4);
    Path config = directory.resolve("config.json");
    Files.writeString(
        config,
        String.format(
            Locale.ROOT,
            """
            {
              "architectures": ["LlamaForCausalLM"],
              "model_type": "llama",
              "hidden_size": %d,
              "head_dim": %d,
              "intermediate_size": 1024,
              "num_hidden_layers": 5,
              "num_attention_heads": 8,
              "num_key_value_heads": 4,
              "vocab_size": 4096
            }
            """,
            8 * headSize,
            headSize));
    Path json = directory.resolve("report.json");
    Path trace = directory.resolve("trace.json");
    try (ChildJvm jvm =
        ForkedJvm.driver(
            cluster,
            Main.class.getName(),
            "decode-bench",
            "--address",
            cluster.address(),
            "--config",
            config.toString(),
            "--layers",
            "2",
            "--ranks",
            String.valueOf(ranks),
            "--batch",
            "1,8",
            "--context",
            "128",
            "--steps",
            "8",
            "--repeats",
            "3",
            "--no-torch",
            "--profile",
            trace.toString(),
            "--json",
            json.toString())) {
      jvm.awaitLine("Loaded ");
      String leftByDriver = DriverFiles.of(jvm.pid());
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
    }
    List<JsonObject> lines = ResultLine.read(Files.readAllLines(json));
    List<JsonObject> steps =
        lines.stream().filter(line -> line.get("kind").getAsString().equals("decode")).toList();
    assertThat(steps).hasSize(2);
    for (JsonObject step : steps) {
      double millis = step.get("median").getAsDouble();
      assertThat(step.get("problem").getAsString()).isEmpty();
      assertThat(step.getAsJsonObject("shape").get("ranks").getAsInt()).isEqualTo(ranks);
      assertThat(millis).isBetween(0.005, 100.0);
      assertThat(step.get("floor").getAsDouble()).isBetween(0.0, millis);
      assertThat(step.get("without").isJsonNull()).isEqualTo(ranks == 1);
      if (ranks > 1) {
        // Each step has five all-reduces, which take microseconds.
        assertThat(step.get("without").getAsDouble()).isBetween(0.005, millis - 0.005);
      }
    }
    // No GPU reads 0.2 or 20 TB/s.
    assertThat(lines.get(0).getAsJsonObject("decode").get("bandwidth").getAsDouble())
        .isBetween(0.2e12, 20e12);
    assertIsInOrder(trace, ranks);
  }

  /** Each span ends after it has begun, and all ranks have them. */
  private static void assertIsInOrder(Path trace, int ranks) throws Exception {
    JsonArray events =
        JsonParser.parseString(Files.readString(trace))
            .getAsJsonObject()
            .getAsJsonArray("traceEvents");
    Set<Integer> seen = new HashSet<>();
    for (JsonElement element : events) {
      JsonObject event = element.getAsJsonObject();
      if (event.get("ph").getAsString().equals("X")) {
        seen.add(event.get("pid").getAsInt());
        // A clock that ticks seldom may not move between two kernels.
        assertThat(event.get("dur").getAsDouble()).isBetween(0.0, 1e5);
      }
    }
    assertThat(seen).hasSize(ranks);
  }
}
