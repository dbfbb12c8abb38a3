package io.nvrar.tools.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

@Tag("slow")
class BenchCommandTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  @BeforeAll
  static void theReportIsInTheCheckout() {
    System.setProperty("nvrar.home", "..");
  }

  @AfterAll
  static void restore() {
    System.clearProperty("nvrar.home");
  }

  private int run(String... args) {
    return new CommandLine(new BenchCommand())
        .setOut(new PrintWriter(out, true))
        .setErr(new PrintWriter(err, true))
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setParameterExceptionHandler(
            (exception, rest) -> {
              err.append(exception.getMessage());
              return 2;
            })
        .setExecutionExceptionHandler(
            (exception, command, parsed) -> {
              err.append(String.valueOf(exception.getMessage()));
              return 1;
            })
        .execute(args);
  }

  @Test
  void everyCollectiveFromProcessesOfJavaIsRightAndTheFilesSayWhatTheTableSays(
      @TempDir Path directory) throws Exception {
    Path csv = directory.resolve("results.csv");
    Path json = directory.resolve("results.json");
    int code =
        run(
            Stream.concat(
                    Stream.of("--compare", "java", "--all", "--processes", "2", "--rounds", "1"),
                    Stream.of(
                        "--repeats",
                        "2",
                        "--iters",
                        "3",
                        "--warmup",
                        "0",
                        "--min",
                        "24",
                        "--max",
                        "24K",
                        "--factor",
                        "32",
                        "--csv",
                        csv.toString(),
                        "--json",
                        json.toString()))
                .toArray(String[]::new));
    assertThat(err.toString()).doesNotContain("rank");
    assertThat(code).isZero();

    List<JsonObject> lines = ResultLine.read(Files.readAllLines(json, UTF_8));
    assertThat(lines.get(0).get("command").getAsString())
        .startsWith("bin/nvrar bench --compare java --all");
    List<JsonObject> results = lines.subList(1, lines.size());
    // Three sizes out of place and in place, but for send-receive, which has no in place, and the
    // barrier, which has no size.
    assertThat(results).hasSize(6 * 3 * 2 + 3 + 1);
    assertThat(results).allSatisfy(one -> assertThat(one.get("wrong").getAsLong()).isZero());
    assertThat(results).allSatisfy(one -> assertThat(one.get("median").getAsDouble()).isPositive());
    List<JsonObject> shapes = results.stream().map(one -> one.getAsJsonObject("shape")).toList();
    assertThat(shapes.stream().map(shape -> shape.get("name").getAsString()).distinct())
        .hasSize(TimedCollective.values().length);
    assertThat(Files.readAllLines(csv, UTF_8))
        .hasSize(1 + results.size())
        .first(InstanceOfAssertFactories.STRING)
        .startsWith("implementation,collective,processes,bytes,count,type,op,root,algorithm,")
        .endsWith(",iterations,repeats,backend,mode,hosts");
    for (JsonObject shape : shapes) {
      assertThat(out.toString()).contains(" " + shape.get("bytes").getAsLong() + " ");
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void killOfAMemberIsSaidAndTakesTheOthersWithIt(boolean afterItJoined) {
    long before = children();
    CompletableFuture<Integer> running =
        CompletableFuture.supplyAsync(
            () ->
                run("--compare", "java", "--processes", "2", "--rounds", "1", "--repeats", "1000"));
    Awaitility.await()
        .atMost(60, TimeUnit.SECONDS)
        .until(() -> secondMember().filter(one -> !afterItJoined || hasJoined(one)).isPresent());
    secondMember().orElseThrow().destroyForcibly();
    assertThat(running.orTimeout(60, TimeUnit.SECONDS).join()).isEqualTo(1);
    assertThat(err.toString()).contains("of the Java benchmark ended without a result");
    Awaitility.await().atMost(10, TimeUnit.SECONDS).until(() -> children() <= before);
  }

  private static boolean hasJoined(ProcessHandle member) {
    try {
      return Files.readString(Path.of("/proc", Long.toString(member.pid()), "maps"))
          .contains("/memfd:");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static long children() {
    return ProcessHandle.current().children().filter(ProcessHandle::isAlive).count();
  }

  private static Optional<ProcessHandle> secondMember() {
    return ProcessHandle.current()
        .children()
        .filter(
            child ->
                child
                    .info()
                    .arguments()
                    .map(words -> String.join(" ", words).contains("--member 1"))
                    .orElse(false))
        .findFirst();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--processes 9         | --processes is 9, must be 1 to 8",
        "--min 8K --max 1K     | --min is 8192 bytes, more than --max, 1024",
        "--op avg --type int8  | --op avg is for floating types, --type is int8",
        "--root 2              | --root is 2, not a rank of 2 processes",
        "--factor 1            | --factor is 1, must be 2 to 1024",
        "--hosts 1             | --hosts is 1, must be 2 to 8",
        "--hosts 2             | --hosts needs the containers that bin/nvrar bench starts",
        "--hosts 2 --processes 1 | --processes is 1, which leaves one of 2 hosts without a rank",
        "--hosts 4 --processes 2 | --processes is 2, which leaves 2 of 4 hosts without a rank",
        "--hosts 3 --processes 3,4 | --processes is 4, which leaves one of 3 hosts without a rank",
        "--hosts 3 --processes 5 | --hosts needs the containers that bin/nvrar bench starts",
        "--exclusive 1         | --gpus, --memory, --exclusive and --programmatic-launch are for --backend cuda",
        "--programmatic-launch 1 | --gpus, --memory, --exclusive and --programmatic-launch are for --backend cuda",
        "--backend cuda --exclusive 2 | --exclusive is 2, must be 0 to 1",
        "--fused               | --fused is for --backend cuda",
        "--rows 1              | --form, --hidden and --rows are for --fused",
        "--backend cuda --hidden 8 --fused 0 | --form, --hidden and --rows are for --fused",
        "--backend cuda --fused --max 1M | --min, --max and --factor are not for --fused; --rows and --hidden say the sizes",
        "--backend cuda --fused --op avg | --fused is for --collective all-reduce and --op sum",
        "--backend cuda --fused --all | --fused is for --collective all-reduce and --op sum",
        "--backend cuda --fused 1 --collective all-gather | --fused is for --collective all-reduce and --op sum",
        "--backend cuda --fused --type int8 | --fused is for bfloat16, float16 and float32, --type is int8",
        "--backend cuda --fused --hidden 100 | --hidden is 100, must be a multiple of 8",
        "--backend cuda --fused --hidden 16392 | --hidden is 16392, must be 8 to 16384",
        "--backend cuda --fused --rows 4,0 | --rows is 0, must be 1 to 4096",
        "--backend cuda --fused --rows 4,8,4 | --rows has 4 twice, and each number of rows is measured once",
        "--backend cuda --fused --factor 2 | --min, --max and --factor are not for --fused; --rows and --hidden say the sizes",
        "--links 1 | --links needs --ranks-per-node, which makes the nodes",
        "--ranks-per-node 1 --links 3 | --links is 3, must be 0, 1, 2 or 4",
        "--ranks-per-node 1 --links 1 --hosts 2 | --links is for nodes of this host, not for --hosts",
        "--backend cuda --fused --ranks-per-node 2 | --ranks-per-node is not for --fused, which needs all ranks on GPUs in one node",
        "--backend cuda --fused 2 | --fused is 2, must be 0 to 1",
        "--backend cuda --programmatic-launch 2 | --programmatic-launch is 2, must be 0 to 1",
        "--from x.json --ranks 2 --plots x | --processes is not for --from, which measures nothing",
        "--slower 0.2          | --slower is for --baseline",
        "--baseline x --slower -0.1 | --slower is -0.1, must be 0 to 100",
        "--baseline x --slower NaN | --slower is NaN, must be 0 to 100",
        "--from x.json --document x | --document is not for --from, which measures nothing",
      })
  void wrongOptionIsCode2AndOneSentenceWithWhatIsPossible(String options, String sentence) {
    assertThat(run(options.split(" ", -1))).isEqualTo(2);
    assertThat(err.toString()).isEqualTo(sentence);
    assertThat(out.toString()).isEmpty();
  }

  @Test
  void wrongNameIsCode2AndTheNamesAreListed() {
    assertThat(run("--collective", "all-reduced")).isEqualTo(2);
    assertThat(err.toString())
        .contains("'all-reduced', must be one of all-reduce, reduce, broadcast, all-gather");
  }

  @Test
  void backendThatCannotRunHereSaysWhy() {
    assertThat(run("--backend", "cuda")).isEqualTo(1);
    assertThat(err.toString()).containsIgnoringCase("cuda");
  }

  @ParameterizedTest
  @ValueSource(strings = {"--csv", "--json"})
  void fileThatCannotBeWrittenIsRefusedBeforeAnythingIsMeasured(
      String option, @TempDir Path directory) {
    Path absent = directory.resolve("absent");
    assertThat(run("--max", "64", option, absent.resolve("file").toString())).isEqualTo(1);
    assertThat(err.toString()).contains(option + ": there is no directory " + absent);
    assertThat(run("--max", "64", option, directory.toString())).isEqualTo(1);
    assertThat(err.toString()).contains(option + ": " + directory + " is a directory");
  }

  @Test
  void pageWithoutAPlaceForTheTablesIsRefusedBeforeAnythingIsMeasured(@TempDir Path directory)
      throws Exception {
    Path page = Files.writeString(directory.resolve("page.md"), "# Benchmarks\n");
    assertThat(run("--document", page.toString())).isEqualTo(1);
    assertThat(err.toString()).contains("has no place for the results");
    assertThat(Files.readString(page)).isEqualTo("# Benchmarks\n");
  }

  @Test
  void peersThatCannotBeMeasuredAreRefusedButThoseOfTheOtherBackendAreLeftOutBesideOthers() {
    assertThat(run("--compare", "nccl,torch")).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("--compare names nccl, but it is not for --backend cpu");
    err.getBuffer().setLength(0);
    assertThat(run("--compare", "nccl,mpi", "--processes", "1")).isEqualTo(1);
    assertThat(err.toString().lines())
        .first()
        .isEqualTo("nvrar: left out: nccl, it is not for --backend cpu");
    assertThat(err.toString()).contains("--compare names mpi, but it");
  }

  /** A file of results, each time by a factor. */
  private static String earlierRun(Path file, double factor) throws IOException {
    StringBuilder lines = new StringBuilder();
    lines.append(ResultLine.ofRun("a <machine>", "bin/nvrar bench --some", Map.of())).append('\n');
    for (long bytes : new long[] {1024, 4096}) {
      Settings settings = TestSettings.onHost(4, bytes, bytes, 2, 0, -1, 3);
      CollectiveValues values = CollectiveValues.ofSize(settings, bytes);
      lines
          .append(
              ResultLine.of(
                  Implementation.CPP,
                  settings,
                  values,
                  ResultLine.OUT_OF_PLACE,
                  Mode.CALLS,
                  List.of(factor),
                  0))
          .append('\n');
    }
    return Files.writeString(file, lines).toString();
  }

  @Test
  void placeForPicturesIsCheckedBeforeAnythingIsMeasured(@TempDir Path directory) throws Exception {
    Path file = Files.writeString(directory.resolve("file"), "");
    assertThat(run("--plots", file.resolve("below").toString())).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("--plots: " + file + " is not a directory");
  }

  @Test
  void runThatIsSlowerThanItsBaselineHasAnExitCodeOfItsOwn(@TempDir Path directory)
      throws Exception {
    String before = earlierRun(directory.resolve("before"), 1);
    String slower = earlierRun(directory.resolve("slower"), 1.2);
    assertThat(run("--from", slower, "--baseline", before)).isEqualTo(4);
    assertThat(err.toString())
        .isEqualTo(
            "nvrar: slower than the baseline by more than 0.1: c++, all-reduce, 4 ranks, by 1.20 in the median\n");
    assertThat(out.toString()).startsWith("a <machine>\n").contains("median      1.20");
    err.getBuffer().setLength(0);
    assertThat(run("--from", slower, "--baseline", before, "--slower", "0.3")).isZero();
    assertThat(err.toString()).isEmpty();
  }

  @Test
  void baselineThatIsNoneIsRefusedBeforeAnythingIsMeasured(@TempDir Path directory)
      throws Exception {
    assertThat(run("--baseline", "/nowhere.json")).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("there is no file /nowhere.json");
    err.getBuffer().setLength(0);
    String file = earlierRun(directory.resolve("before"), 1);
    assertThat(run("--baseline", file, "--processes", "2")).isEqualTo(1);
    assertThat(err.toString())
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "the baseline %s has nothing of what is measured here: it is of all-reduce, float32 sum, 4 processes",
                file));
    assertThat(out.toString()).isEmpty();
  }

  @Test
  void pythonThatIsMissingIsSaidBeforeAnythingIsMeasured() {
    System.setProperty("nvrar.python", "/nowhere/python3");
    try {
      assertThat(run("--processes", "2")).isEqualTo(1);
    } finally {
      System.clearProperty("nvrar.python");
    }
    assertThat(err.toString()).isEqualTo("reports need /nowhere/python3, which is not here");
  }
}
