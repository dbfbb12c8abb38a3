package io.nvrar.it.containers;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.tools.Main;
import java.io.IOException;
import java.nio.file.Files;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.testcontainers.containers.Container.ExecResult;

/** {@code bin/nvrar decode} on the hosts of a cluster. */
final class Decoding {

  private Decoding() {}

  /** The tokens must be those of Transformers, so the text is the same wherever the shards are. */
  static void check(ContainerCluster cluster, int nodes) throws IOException, InterruptedException {
    JsonObject reference =
        JsonParser.parseString(Files.readString(ContainerCluster.model().resolve("reference.json")))
            .getAsJsonObject();
    ExecResult result =
        cluster.driver(
            Main.class.getName(),
            "decode",
            "--address",
            cluster.address(),
            "--model",
            ContainerCluster.MODEL,
            "--ranks",
            String.valueOf(ContainerCluster.GPUS),
            "--nodes",
            String.valueOf(nodes),
            "--prompt-ids",
            StreamSupport.stream(reference.getAsJsonArray("prompt_ids").spliterator(), false)
                .map(id -> id.getAsString())
                .collect(Collectors.joining(",")),
            "--max-tokens",
            String.valueOf(reference.getAsJsonArray("generated_ids").size()),
            "--ignore-eos",
            "--print-ids",
            "--json");
    assertThat(result.getExitCode()).as("%s", result).isZero();
    String output = result.getStdout();
    JsonObject decoded =
        JsonParser.parseString(output.substring(output.indexOf('{')))
            .getAsJsonObject()
            .getAsJsonArray("outputs")
            .get(0)
            .getAsJsonObject();
    assertThat(decoded.get("generated_ids")).isEqualTo(reference.get("generated_ids"));
  }
}
