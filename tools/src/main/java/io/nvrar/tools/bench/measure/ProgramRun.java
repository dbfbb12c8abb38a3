package io.nvrar.tools.bench.measure;

import com.google.gson.JsonObject;
import io.nvrar.AllReduceFusion;
import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The measurement by an external program that writes lines of results: nvrar_bench,
 * nvrar_bench_mpi, or the PyTorch script.
 */
public final class ProgramRun {
  private static final int LIMIT_SECONDS = 600;

  /** Also of nvrar_bench_mpi. */
  private static final List<String> NAMES = List.of("nvrar_bench", "peers_bench");

  /** The rows that the study has fused kernels for. */
  private static final List<Integer> STUDY_HIDDEN = List.of(4096, 8192);

  private static final int STUDY_ROWS_MOST = 32;

  /** The exit code of a run with wrong results, which the {@code wrong} column counts. */
  private static final int WRONG_RESULTS = 3;

  private ProgramRun() {}

  /** The directory in which {@code bin/nvrar bench} builds the two programs. */
  static Path directory(Path home) {
    String directory = System.getProperty("nvrar.bench.programs");
    return directory == null
        ? home.resolve(Path.of("native", "build", "release", "bench"))
        : Path.of(directory);
  }

  /**
   * The script of {@code bin/nvrar} that runs a program's ranks on several hosts; null if they are
   * on this one.
   */
  public static @Nullable String onHosts() {
    return System.getProperty("nvrar.bench.hosts");
  }

  public static List<JsonObject> cpp(Path home, Settings settings, boolean study)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    if (onHosts() != null) {
      command.addAll(List.of(onHosts(), "nvrar"));
    }
    command.add(program(home, "nvrar_bench").toString());
    if (study && settings.onGpu()) {
      command.addAll(List.of("--yardstick", "1"));
    }
    return run(command, settings);
  }

  public static List<JsonObject> mpi(Path home, Settings settings)
      throws IOException, InterruptedException {
    if (onHosts() != null) {
      return run(List.of(onHosts(), "mpi", program(home, "nvrar_bench_mpi").toString()), settings);
    }
    // --oversubscribe, because members of our groups may outnumber the cores, too. To run as root,
    // mpirun requires two settings.
    return run(
        List.of(
            "env",
            "OMPI_ALLOW_RUN_AS_ROOT=1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
            "mpirun",
            "--oversubscribe",
            "-n",
            Integer.toString(settings.processes()),
            program(home, "nvrar_bench_mpi").toString()),
        settings);
  }

  /**
   * NCCL and what PyTorch's symmetric memory has of the collective.
   *
   * @param progress is told what the script has left out, and why
   */
  public static List<JsonObject> torch(Path home, Settings settings, PrintWriter progress)
      throws IOException, InterruptedException {
    return torch(PythonTorch.PYTHON, home, settings, progress);
  }

  static List<JsonObject> torch(String python, Path home, Settings settings, PrintWriter progress)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("env", "OMP_NUM_THREADS=1"));
    if (settings.links() > 0) {
      command.addAll(List.of("NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_IB_DISABLE=1"));
    }
    command.addAll(List.of(python, peersScript(home).toString()));
    return run(command, settings, line -> progress.println("nvrar: " + line));
  }

  private static Path peersScript(Path home) {
    return home.resolve(Path.of("native", "bench", "peers_bench.py"));
  }

  /** Why an implementation is not measured with these settings, empty if it is. */
  public static String leftOut(Path home, Implementation implementation, Settings settings) {
    return switch (implementation) {
      case CPP -> "";
      case CPP_APART -> settings.fused() == null ? "it is measured with --fused only" : "";
      case JAVA ->
          onHosts() != null
              ? "it is measured on one host only"
              : settings.links() > 0 ? "its groups link hosts, not the nodes of one" : "";
      case STUDY -> studyLeftOut(settings);
      case OPEN_MPI -> mpiLeftOut(home, settings);
      case NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT, TORCH_REDUCE_SCATTER, TORCH_LOW_CONTENTION ->
          torchLeftOut(home, implementation, settings);
    };
  }

  private static String studyLeftOut(Settings settings) {
    boolean its =
        settings.collective() == TimedCollective.ALL_REDUCE
            && settings.type() == DataType.BFLOAT16
            && settings.op() == ReduceOp.SUM
            && List.of(2, 4, 8).contains(settings.processes());
    if (!its) {
      return "its kernels are for the all-reduce of bfloat16 sums among 2, 4 or 8 ranks";
    }
    FusedRows fused = settings.fused();
    if (fused != null
        && (fused.form() != AllReduceFusion.Form.RMS_NORM
            || !STUDY_HIDDEN.contains(fused.hidden())
            || fused.rows().stream().noneMatch(rows -> rows <= STUDY_ROWS_MOST))) {
      return "its fused kernels are for norms of up to 32 rows of 4096 or 8192 elements";
    }
    return tooLarge(Implementation.STUDY, settings);
  }

  private static String tooLarge(Implementation implementation, Settings settings) {
    return settings.leastBytes() > implementation.mostBytes()
        ? String.format(
            Locale.ROOT, "it is measured up to %d bytes only", implementation.mostBytes())
        : "";
  }

  private static String torchLeftOut(Path home, Implementation implementation, Settings settings) {
    if (!implementation.collectives().contains(settings.collective())) {
      return implementation.collectives().stream()
          .map(OptionNames::of)
          .collect(Collectors.joining(", ", "it is measured in ", " only"));
    }
    if (Collections.disjoint(implementation.modes(), settings.modes())) {
      return implementation.modes().stream()
          .map(OptionNames::of)
          .collect(Collectors.joining(" and ", "it is measured in ", " only"));
    }
    if (settings.collective().reduces() && settings.op() != ReduceOp.SUM) {
      return "it is measured in sum only";
    }
    String tooLarge = tooLarge(implementation, settings);
    if (!tooLarge.isEmpty()) {
      return tooLarge;
    }
    if (settings.processes() == 1) {
      return "with one process there is nothing to compare";
    }
    if (settings.links() > 0 && implementation != Implementation.NCCL) {
      return "it needs GPUs of one host, and --links has the nodes act as hosts";
    }
    if (settings.sharesGpus()) {
      return "it takes a GPU for each rank";
    }
    if (settings.type() != DataType.BFLOAT16
        && settings.type() != DataType.FLOAT16
        && settings.type() != DataType.FLOAT32) {
      return "it is measured in bfloat16, float16 and float32 only";
    }
    if (!Files.isReadable(peersScript(home))) {
      return peersScript(home) + " is not here";
    }
    return PythonTorch.problem();
  }

  /** Why Open MPI is not measured beside ours, empty if it is. */
  private static String mpiLeftOut(Path home, Settings settings) {
    boolean started =
        Stream.of(System.getenv("PATH").split(":", -1))
            .anyMatch(directory -> Files.isExecutable(Path.of(directory, "mpirun")));
    if (!started || !Files.isExecutable(directory(home).resolve("nvrar_bench_mpi"))) {
      return "it is not installed here; Debian: sudo apt-get install openmpi-bin libopenmpi-dev, then start again";
    }
    if (settings.collective() != TimedCollective.ALL_REDUCE) {
      return "it is measured in all-reduce only";
    }
    if (settings.processes() == 1) {
      return "with one process there is nothing to compare";
    }
    return switch (settings.type()) {
      case FLOAT16, BFLOAT16 -> "it has no " + OptionNames.of(settings.type());
      case INT8, UINT8, INT32, INT64, FLOAT32, FLOAT64 ->
          switch (settings.op()) {
            case AVG -> "it has no avg";
            case SUM, PRODUCT, MAX, MIN -> "";
          };
    };
  }

  /**
   * A native program.
   *
   * @throws IOException if it is not built
   */
  public static Path program(Path home, String name) throws IOException {
    Path program = directory(home).resolve(name);
    if (!Files.isExecutable(program)) {
      throw new IOException(program + " is not built; bin/nvrar bench and bin/nvrar tune build it");
    }
    return program;
  }

  private static List<JsonObject> run(List<String> start, Settings settings)
      throws IOException, InterruptedException {
    return run(start, settings, line -> {});
  }

  private static List<JsonObject> run(
      List<String> start, Settings settings, Consumer<String> leftOut)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(start);
    command.addAll(settings.arguments());
    List<String> lines =
        new MeasuringProgram(command, NAMES, LIMIT_SECONDS)
            .accepting(WRONG_RESULTS)
            .run("--json", leftOut);
    try {
      return ResultLine.read(lines).stream()
          .map(line -> ResultLine.withHosts(line, settings))
          .toList();
    } catch (IOException e) {
      throw new IOException(
          String.format(
              Locale.ROOT, "%s wrote no results that this version knows", String.join(" ", start)),
          e);
    }
  }
}
