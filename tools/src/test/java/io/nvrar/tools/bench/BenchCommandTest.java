package io.nvrar.tools.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.tools.bench.results.ResultFiles;
import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.results.Row;
import io.nvrar.tools.bench.results.TestRows;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
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

    List<String> lines = Files.readAllLines(csv, UTF_8);
    assertThat(lines.get(0)).isEqualTo(Row.HEADER);
    List<Row> rows = lines.stream().skip(1).map(Row::parse).toList();
    // Three sizes out of place and in place, but for send-receive, which has no in place, and the
    // barrier, which has no size.
    assertThat(rows).hasSize(6 * 3 * 2 + 3 + 1);
    assertThat(rows).allSatisfy(row -> assertThat(row.wrong()).isZero());
    assertThat(rows).allSatisfy(row -> assertThat(row.timeUs()).isPositive());
    assertThat(rows.stream().map(Row::collective).distinct())
        .hasSize(TimedCollective.values().length);

    JsonObject document = JsonParser.parseString(Files.readString(json)).getAsJsonObject();
    assertThat(document.get("command").getAsString())
        .startsWith("bin/nvrar bench --compare java --all");
    assertThat(document.get("results").getAsJsonArray())
        .hasSize(rows.size())
        .allSatisfy(
            result ->
                assertThat(String.join(",", result.getAsJsonObject().keySet()))
                    .isEqualTo(Row.HEADER));
    for (Row row : rows) {
      assertThat(out.toString()).contains(" " + row.bytes() + " ");
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
        "--ranks-per-node 1 --links 1 --document d.md | --document and --baseline are not for --links, which the results do not name",
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

  private static Path earlierRun(Path directory) throws IOException {
    return earlierRun(directory.resolve("run.json"), "a <machine>", 1);
  }

  private static Path earlierRun(Path file, String machine, double factor) throws IOException {
    ResultFiles.json(
        file,
        new Run(
            machine,
            "bin/nvrar bench --some",
            List.of(
                TestRows.onHost(Implementation.CPP, 1024, 1.0 * factor),
                TestRows.onHost(Implementation.CPP, 4096, 2.0 * factor),
                TestRows.onHost(Implementation.OPEN_MPI, 1024, 3.0),
                TestRows.onHost(Implementation.OPEN_MPI, 4096, 4.0))));
    return file;
  }

  @Test
  void earlierRunBecomesPicturesAndAPageThatNeedsNoOtherFile(@TempDir Path directory)
      throws Exception {
    Path plots = directory.resolve("new/plots");
    String file = earlierRun(directory).toString();
    assertThat(run("--from", file, "--plots", plots.toString())).isZero();
    assertThat(out.toString()).startsWith("a <machine>\n").contains("open-mpi");
    assertThat(err.toString()).isEmpty();
    try (Stream<Path> files = Files.list(plots)) {
      assertThat(files.map(path -> path.getFileName().toString()).sorted())
          .containsExactly(
              "all-reduce-float32-sum-4-processes-bus-bandwidth.png",
              "all-reduce-float32-sum-4-processes-bus-bandwidth.svg",
              "all-reduce-float32-sum-4-processes-speed-up.png",
              "all-reduce-float32-sum-4-processes-speed-up.svg",
              "all-reduce-float32-sum-4-processes-time.png",
              "all-reduce-float32-sum-4-processes-time.svg",
              "index.html");
    }
    String page = Files.readString(plots.resolve("index.html"));
    assertThat(page).contains("a &lt;machine&gt;", "bin/nvrar bench --some", "algbw");
    assertThat(page.split("src=\"data:image/svg\\+xml;base64,", -1)).hasSize(3 + 1);
    assertThat(page).doesNotContain("http", ".svg\"");
  }

  @Test
  void placeForPicturesIsCheckedBeforeAnythingIsMeasured(@TempDir Path directory) throws Exception {
    Path file = Files.writeString(directory.resolve("file"), "");
    assertThat(run("--plots", file.resolve("below").toString())).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("--plots: " + file + " is not a directory");
  }

  @Test
  void javaRuntimeWithoutDesktopRefusesPicturesInASentenceBeforeAnythingIsMeasured(
      @TempDir Path directory) throws Exception {
    Path plots = directory.resolve("plots");
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--limit-modules",
                "java.logging,java.management,java.naming,java.sql,java.xml,jdk.unsupported",
                "-cp",
                System.getProperty("java.class.path"),
                "io.nvrar.tools.Main",
                "bench",
                "--plots",
                plots.toString())
            .redirectErrorStream(true)
            .start();
    String said = new String(process.getInputStream().readAllBytes(), UTF_8);
    assertThat(process.waitFor()).as(said).isEqualTo(1);
    assertThat(said.lines()).as(said).hasSize(1);
    assertThat(said)
        .startsWith("nvrar: --plots: this Java runtime cannot draw (java.lang.NoClassDefFoundError")
        .contains("nvrar bench --from FILE --plots DIR");
    assertThat(plots).doesNotExist();
  }

  @Test
  void runThatIsSlowerThanItsBaselineHasAnExitCodeOfItsOwnAndOneWithinTheNoiseHas0(
      @TempDir Path directory) throws Exception {
    String before = earlierRun(directory).toString();
    String slower = earlierRun(directory.resolve("slower.json"), "a <machine>", 1.2).toString();
    String noise = earlierRun(directory.resolve("noise.json"), "another", 1.08).toString();
    assertThat(run("--from", slower, "--baseline", before)).isEqualTo(4);
    assertThat(err.toString())
        .isEqualTo(
            "nvrar: slower than the baseline by more than 0.1: c++, all-reduce, 4 ranks, by 1.20 in the median\n");
    assertThat(out.toString()).contains("median      1.20      1.00");
    err.getBuffer().setLength(0);
    assertThat(run("--from", slower, "--baseline", before, "--slower", "0.3")).isZero();
    assertThat(err.toString()).isEmpty();
    assertThat(run("--from", noise, "--baseline", before)).isZero();
    assertThat(err.toString()).isEqualTo("nvrar: the baseline was measured on a <machine>\n");
  }

  @Test
  void baselineThatIsNoneIsRefusedBeforeAnythingIsMeasured(@TempDir Path directory)
      throws Exception {
    assertThat(run("--baseline", "/nowhere.json")).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("there is no file /nowhere.json");
    err.getBuffer().setLength(0);
    String file = earlierRun(directory).toString();
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
  void timesOfZeroInAnEarlierRunLeaveRatiosBlank(@TempDir Path directory) throws Exception {
    Path file = directory.resolve("run.json");
    ResultFiles.json(
        file,
        new Run(
            "a machine",
            "bin/nvrar bench --some",
            List.of(
                TestRows.onHost(Implementation.CPP, 1024, 0.0),
                TestRows.onHost(Implementation.CPP, 2048, 2.0),
                TestRows.onHost(Implementation.CPP, 4096, 3.0),
                TestRows.onHost(Implementation.OPEN_MPI, 1024, 0.0),
                TestRows.onHost(Implementation.OPEN_MPI, 2048, 0.0),
                TestRows.onHost(Implementation.OPEN_MPI, 4096, 2.0))));
    Path plots = directory.resolve("plots");
    assertThat(run("--from", file.toString(), "--plots", plots.toString())).isZero();
    assertThat(err.toString()).isEmpty();
    assertThat(out.toString()).doesNotContain("NaN", "Infinity");
    assertThat(out.toString())
        .containsPattern(" 1024 .* c\\+\\+ \\| +0.00 .* -\\R")
        .containsPattern(" 2048 .* c\\+\\+ \\| +2.00 .* -\\R")
        .containsPattern(" 4096 .* c\\+\\+ \\| +3.00 .* 1.50\\R")
        .contains("all sizes: 1.50 to 1.50 times its time");
    assertThat(Files.readString(plots.resolve("index.html"))).doesNotContain("NaN", "Infinity");
  }
}
