package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.Main;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * {@code bin/nvrar decode} with the model that is shipped, as its user types it wherever it runs.
 */
abstract class DecodeContract {

  private static final Duration LIMIT = Duration.ofSeconds(60);
  private static final Path LESSON =
      Path.of(System.getProperty("nvrar.home", ".."), "examples/09-llama-decode")
          .toAbsolutePath()
          .normalize();
  static final Path MODEL = LESSON.resolve("model/tiny-english");
  private static final double TOLERANCE = 1e-3;

  /** Options of a decode that takes seconds, in which there is time for a member to be lost. */
  abstract List<String> longDecode(Path directory) throws IOException;

  /** Options that say where the actors are. */
  List<String> places() {
    return List.of();
  }

  /** As many ranks as the command has by itself. */
  private static int ranks(RayCluster cluster) {
    return Math.min(4, Integer.highestOneBit(cluster.gpus()));
  }

  @Test
  void actorsDecodeTheTokensAndLogitsOfTransformers(RayCluster cluster, @TempDir Path directory)
      throws Exception {
    JsonObject reference =
        JsonParser.parseString(Files.readString(MODEL.resolve("reference.json"))).getAsJsonObject();
    JsonArray expected = reference.getAsJsonArray("generated_ids");
    String prompt = joined(reference.getAsJsonArray("prompt_ids"));
    Path logits = directory.resolve("logits.npy");
    try (ChildJvm jvm =
        decode(
            cluster,
            "--prompt-ids",
            prompt,
            "--prompt-ids",
            prompt,
            "--print-ids",
            "--ignore-eos",
            "--max-tokens",
            String.valueOf(expected.size()),
            "--logits",
            logits.toString(),
            "--json")) {
      String json = "{" + jvm.awaitLine("{");
      String leftByDriver = DriverFiles.of(jvm.pid());
      JsonObject output =
          JsonParser.parseString(json)
              .getAsJsonObject()
              .getAsJsonArray("outputs")
              .get(0)
              .getAsJsonObject();
      assertThat(output.get("generated_ids")).isEqualTo(expected);
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
    }
    for (String name : List.of("logits-1.npy", "logits-2.npy")) {
      FloatBuffer ours = floats(directory.resolve(name));
      assertThat(relativeError(ours, floats(MODEL.resolve("logits.npy")))).isLessThan(TOLERANCE);
    }
  }

  @Test
  void aKilledActorEndsTheDecodeWithASentenceThatNamesItsRankAndTheNextOneWorks(
      RayCluster cluster, @TempDir Path directory) throws Exception {
    Set<Long> before = workers(cluster);
    Set<Long> actors;
    try (ChildJvm jvm = command(cluster, longDecode(directory))) {
      jvm.awaitLine("Loaded ");
      String leftByDriver = DriverFiles.of(jvm.pid());
      actors = workers(cluster);
      actors.removeAll(before);
      assertThat(actors).hasSize(ranks(cluster));
      ProcessHandle.of(actors.iterator().next()).orElseThrow().destroyForcibly();
      // The text that was generated until then may stand before it on the line.
      List<String> lines = jvm.awaitEnd(LIMIT);
      assertThat(lines).anyMatch(line -> line.matches(".*nvrar: rank [0-3] .* was lost.*"));
      assertThat(jvm.exitCode()).isEqualTo(1);
      DriverFiles.delete(leftByDriver);
    }
    await()
        .atMost(LIMIT)
        .until(() -> actors.stream().noneMatch(pid -> ProcessHandle.of(pid).isPresent()));
    try (ChildJvm jvm = decode(cluster, "--prompt", "In the beginning", "--max-tokens", "4")) {
      jvm.awaitLine("Loaded ");
      String leftByDriver = DriverFiles.of(jvm.pid());
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
    }
  }

  @Test
  void actorsMakeRandomWeightsOfTheSameModelWithoutFiles(RayCluster cluster) throws Exception {
    Path model = LESSON.resolve("test-models/seeded64");
    JsonObject reference =
        JsonParser.parseString(Files.readString(model.resolve("reference.json"))).getAsJsonObject();
    try (ChildJvm jvm =
        command(
            cluster,
            List.of(
                "--random-weights",
                model.resolve("config.json").toString(),
                "--weights-seed",
                reference.get("weights_seed").getAsString(),
                "--prompt-ids",
                joined(reference.getAsJsonArray("prompt_ids")),
                "--ignore-eos",
                "--max-tokens",
                "4"))) {
      jvm.awaitLine("Loaded ");
      String leftByDriver = DriverFiles.of(jvm.pid());
      JsonArray first = new JsonArray();
      for (int i = 0; i < 4; i++) {
        first.add(reference.getAsJsonArray("generated_ids").get(i));
      }
      assertThat(jvm.awaitEnd(LIMIT)).contains(joined(first));
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
    }
  }

  @Test
  void whatIsWrongIsSaidBeforeAnActorStarts(RayCluster cluster) throws Exception {
    Set<Long> before = workers(cluster);
    try (ChildJvm jvm = decode(cluster, "--ranks", "3")) {
      assertThat(jvm.awaitLine("nvrar: "))
          .isEqualTo("The model has 8 attention heads, which 3 ranks do not divide.");
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isEqualTo(1);
    }
    // Those of earlier tests may end meanwhile.
    assertThat(before).containsAll(workers(cluster));
  }

  private static String joined(JsonArray numbers) {
    return StreamSupport.stream(numbers.spliterator(), false)
        .map(JsonElement::getAsString)
        .collect(Collectors.joining(","));
  }

  /** Decodes with the model that is shipped. */
  private ChildJvm decode(RayCluster cluster, String... options) throws IOException {
    List<String> all = new ArrayList<>(List.of("--model", MODEL.toString()));
    all.addAll(List.of(options));
    return command(cluster, all);
  }

  private ChildJvm command(RayCluster cluster, List<String> options) throws IOException {
    List<String> command =
        new ArrayList<>(List.of(Main.class.getName(), "decode", "--address", cluster.address()));
    command.addAll(options);
    command.addAll(places());
    return ForkedJvm.driver(cluster, command.toArray(String[]::new));
  }

  /** The processes of the cluster's Java workers. */
  private static Set<Long> workers(RayCluster cluster) {
    return ProcessHandle.allProcesses()
        .filter(process -> process.info().command().orElse("").endsWith("/java"))
        .map(ProcessHandle::pid)
        .filter(
            pid -> {
              String line = commandLine(pid);
              return line.contains("-Dray.address=" + cluster.address())
                  && line.contains("DefaultWorker");
            })
        .collect(Collectors.toCollection(HashSet::new));
  }

  // ProcessHandle cuts long command lines, and the class is at the end of this one.
  private static String commandLine(long pid) {
    try {
      return Files.readString(Path.of("/proc/" + pid + "/cmdline"));
    } catch (IOException e) {
      return "";
    }
  }

  private static double relativeError(FloatBuffer actual, FloatBuffer expected) {
    assertThat(actual.remaining()).isEqualTo(expected.remaining());
    double difference = 0;
    double magnitude = 0;
    while (expected.hasRemaining()) {
      float wanted = expected.get();
      difference = Math.max(difference, Math.abs((double) wanted - actual.get()));
      magnitude = Math.max(magnitude, Math.abs((double) wanted));
    }
    return difference / magnitude;
  }

  private static FloatBuffer floats(Path npy) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(npy)).order(ByteOrder.LITTLE_ENDIAN);
    return bytes
        .position(10 + bytes.getShort(8))
        .slice()
        .order(ByteOrder.LITTLE_ENDIAN)
        .asFloatBuffer();
  }
}
