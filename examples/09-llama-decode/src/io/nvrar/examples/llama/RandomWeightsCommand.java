package io.nvrar.examples.llama;

import io.nvrar.examples.llama.weights.CheckpointWriter;
import io.nvrar.examples.llama.weights.RandomModel;
import io.nvrar.tools.NvrarCommand;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Writes a model of any shape with random weights, to measure loading and decoding with. */
@Command(
    name = "random-weights",
    description =
        "Write a model directory with random weights in bf16, the same for the same seed.",
    mixinStandardHelpOptions = true)
public final class RandomWeightsCommand implements NvrarCommand {
  @Option(
      names = "--config",
      paramLabel = "CONFIG",
      required = true,
      description = "A config.json, or a shape of Llama 3.1: 8b, 70b or 405b.")
  private String config = "";

  @Option(
      names = "--write",
      paramLabel = "DIR",
      required = true,
      description = "The directory to write; it must be empty or not exist.")
  private Path directory = Path.of("");

  @Option(
      names = "--layers",
      paramLabel = "N",
      description = "The number of layers (default: that of the configuration).")
  private @Nullable Integer layers;

  @Option(
      names = "--weights-seed",
      paramLabel = "N",
      defaultValue = "0",
      description = "Another seed makes other weights (default: ${DEFAULT-VALUE}).")
  private long weightsSeed;

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    RandomModel model = RandomModel.of(config, layers, weightsSeed);
    Path target = directory.toAbsolutePath().normalize();
    CheckpointWriter writer = new CheckpointWriter(Runtime.getRuntime().availableProcessors());
    AtomicLong written = new AtomicLong();
    // Before the progress is shown.
    writer.check(target, model);
    try (WeightsProgress progress =
        WeightsProgress.writing(err(), CheckpointWriter.tensorBytes(model), target)) {
      writer.write(target, model, bytes -> progress.update(written.addAndGet(bytes)));
      progress.complete();
    }
    return 0;
  }

  private PrintWriter err() {
    if (spec == null) {
      throw new IllegalStateException("the command line has not set the command's spec");
    }
    return spec.commandLine().getErr();
  }
}
