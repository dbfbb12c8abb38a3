package io.nvrar.examples.training;

import io.nvrar.examples.cluster.RayCluster;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.NvrarCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The command {@code train}: validates options, runs the training, prints the result. */
@Command(
    name = "train",
    description = "Train a character GPT, data-parallel on Ray actors, on CPUs.",
    mixinStandardHelpOptions = true,
    showDefaultValues = true)
public final class TrainCommand implements NvrarCommand {
  private static final long MOST_PARAMETERS = 20_000_000;
  private static final String SHIPPED = "examples/10-training/text/pride.txt";

  @Option(
      names = "--text",
      paramLabel = "FILE",
      description =
          "What to learn, in UTF-8; without it a part of a novel that is kept beside this lesson.")
  private @Nullable Path textFile;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      defaultValue = "2",
      description = "Number of actors, 1 to 8, with a CPU each. It divides --batch.")
  private int ranks;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  @Option(
      names = "--steps",
      paramLabel = "N",
      defaultValue = "600",
      description = "Steps of the whole run.")
  private int steps;

  @Option(
      names = "--batch",
      paramLabel = "N",
      defaultValue = "32",
      description = "Sequences of a step, on all ranks together.")
  private int batch;

  @Option(
      names = "--context",
      paramLabel = "N",
      defaultValue = "128",
      description = "Characters that the model sees at once.")
  private int context;

  @Option(
      names = "--layers",
      paramLabel = "N",
      defaultValue = "4",
      description = "Layers of the model.")
  private int layers;

  @Option(
      names = "--width",
      paramLabel = "N",
      defaultValue = "128",
      description = "Size of a character's vector.")
  private int width;

  @Option(
      names = "--heads",
      paramLabel = "N",
      defaultValue = "4",
      description = "Attention heads of a layer. They divide --width.")
  private int heads;

  @Option(
      names = "--rate",
      paramLabel = "X",
      defaultValue = "0.003",
      description = "Greatest learning rate.")
  private float rate;

  @Option(
      names = "--seed",
      paramLabel = "N",
      defaultValue = "1",
      description =
          "Of the first weights and of the order of the text: the same seed gives the same run.")
  private long seed;

  @Option(
      names = "--checkpoint-every",
      paramLabel = "N",
      defaultValue = "50",
      description =
          "Steps between two checkpoints, from which the run goes on when an actor is lost.")
  private int checkpointEvery;

  @Option(
      names = "--checkpoints",
      paramLabel = "DIR",
      description =
          "Keep the two newest checkpoints here, and go on from the newest one that is here.")
  private @Nullable Path checkpoints;

  @Option(
      names = "--losses",
      paramLabel = "FILE",
      description = "Write the loss of each step to this file, as CSV.")
  private @Nullable Path lossFile;

  @Option(
      names = "--plot",
      paramLabel = "FILE",
      description = "Draw the loss curve to this file, as PNG.")
  private @Nullable Path plotFile;

  @Option(
      names = "--prompt",
      paramLabel = "TEXT",
      defaultValue = "It is a truth ",
      description = "What the sample at the end begins with.")
  private String prompt = "";

  @Option(
      names = "--sample",
      paramLabel = "N",
      defaultValue = "400",
      description = "Characters of the sample; 0 for none.")
  private int sample;

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws IOException {
    TrainingPlan plan = plan();
    if (ranks < 1 || ranks > Groups.MAX_NODE_SIZE || batch % ranks != 0) {
      throw wrong(
          "--ranks is %d, must be 1 to %d and divide --batch, %d",
          ranks, Groups.MAX_NODE_SIZE, batch);
    }
    if (checkpointEvery < 1) {
      throw wrong("--checkpoint-every is %d, must be 1 or more", checkpointEvery);
    }
    if (sample < 0 || (sample > 0 && prompt.isEmpty())) {
      throw wrong("--sample is %d, must be 0 or more, and a sample begins with a --prompt", sample);
    }
    requireWritable(lossFile);
    requireWritable(plotFile);
    byte[] bytes = read(textFile());
    Text text = Text.of(bytes, textFile().toString(), plan.context);
    if (sample > 0) {
      text.encode(prompt);
    }
    long parameters = plan.parameters(text.vocabularySize());
    if (parameters > MOST_PARAMETERS) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the model would have %d parameters, and this lesson trains at most %d",
              parameters,
              MOST_PARAMETERS));
    }
    Map<String, String> options = plan.options();
    options.put("the text's checksum", text.checksum());
    options.put("--ranks", Integer.toString(ranks));
    CheckpointDirectory directory =
        checkpoints == null ? null : new CheckpointDirectory(checkpoints);
    Checkpoint last = directory == null ? null : directory.newest(options);
    if (last == null) {
      last = new Checkpoint(options, new float[0], new byte[0]);
    }
    // Ray's copy and the decoded copy of state and text are in the heap together.
    long heapBytes = 4 * Replica.STATE_BYTES * parameters + 8L * bytes.length;
    RayCluster cluster = RayCluster.connect(address);
    try (cluster) {
      TrainingRun run;
      TrainingRun.Result result;
      try (TrainingProgress progress = new TrainingProgress(err(), plan, ranks)) {
        run = new TrainingRun(plan, bytes, last, checkpointEvery, directory, progress);
        result = run.complete(() -> TrainingActors.start(ranks, heapBytes), prompt, sample);
      }
      show(run.losses(), result);
    }
    return 0;
  }

  private void show(float[] losses, TrainingRun.Result result) throws IOException {
    if (lossFile != null) {
      LossCurve.writeTable(losses, lossFile);
    }
    out()
        .printf(
            Locale.ROOT,
            "held-out text: loss %.4f, %.3f bits a character%n",
            result.heldOutLoss(),
            result.heldOutLoss() / Math.log(2));
    if (sample > 0) {
      out().println();
      out().println(result.sample());
    }
    out().flush();
    if (plotFile != null) {
      LossCurve.draw(losses, result.heldOutLoss(), plotFile);
    }
  }

  private TrainingPlan plan() {
    try {
      return new TrainingPlan(layers, width, heads, context, batch, steps, rate, seed);
    } catch (TrainingException e) {
      throw new ParameterException(spec().commandLine(), e.getMessage(), e);
    }
  }

  private Path textFile() {
    return textFile == null
        ? Path.of(System.getProperty("nvrar.home", "")).resolve(SHIPPED)
        : textFile;
  }

  /** Otherwise a run would end in vain. */
  private static void requireWritable(@Nullable Path file) {
    if (file != null) {
      Path directory = file.toAbsolutePath().getParent();
      if (Files.isDirectory(file) || directory == null) {
        throw new TrainingException(file + " is a directory, and a file is to be written");
      }
      if (!Files.isDirectory(directory)) {
        throw new TrainingException(
            String.format(Locale.ROOT, "there is no directory %s for %s", directory, file));
      }
      if (!Files.isWritable(Files.exists(file) ? file : directory)) {
        throw new TrainingException(file + " cannot be written by this user");
      }
    }
  }

  private static byte[] read(Path file) throws IOException {
    try {
      return Files.readAllBytes(file);
    } catch (NoSuchFileException e) {
      throw new TrainingException("there is no text " + file, e);
    } catch (IOException e) {
      if (Files.isDirectory(file)) {
        throw new TrainingException(file + " is a directory, not a text", e);
      }
      throw e;
    }
  }

  private ParameterException wrong(String format, Object... values) {
    return new ParameterException(spec().commandLine(), String.format(Locale.ROOT, format, values));
  }

  private CommandSpec spec() {
    return java.util.Objects.requireNonNull(spec);
  }

  private PrintWriter out() {
    return spec().commandLine().getOut();
  }

  private PrintWriter err() {
    return spec().commandLine().getErr();
  }
}
