package io.nvrar.tools.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.TuningTable;
import io.nvrar.TuningTable.Collective;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tuning.TuningFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class TuneCommandTest {
  private static final String PROGRAMS = "nvrar.bench.programs";
  private static final Path BUILT = Path.of("..", "native", "build", "release", "bench");

  @TempDir private Path directory;
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(String... args) {
    return new CommandLine(new TuneCommand())
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

  private int runWith(Path programs, String... args) {
    String before = System.getProperty(PROGRAMS);
    System.setProperty(PROGRAMS, programs.toString());
    try {
      return run(args);
    } finally {
      if (before == null) {
        System.clearProperty(PROGRAMS);
      } else {
        System.setProperty(PROGRAMS, before);
      }
    }
  }

  /** On the real library, between two processes. */
  @Test
  void aTableOfTheCpuIsMadeCheckedAndRead() {
    assumeTrue(
        Files.isExecutable(BUILT.resolve("nvrar_bench")),
        "native/build/release/bench/nvrar_bench is not built");
    int code =
        runWith(
            BUILT,
            "--type",
            "float16",
            "--min",
            "64",
            "--max",
            "4K",
            "--factor",
            "64",
            "--budget",
            "3s",
            "--output",
            directory.toString(),
            "--json");
    assertThat(code).as(err.toString()).isZero();
    JsonObject json = JsonParser.parseString(out.toString()).getAsJsonObject();
    assertThat(json.get("architecture").getAsString()).isEqualTo("x86_64");
    assertThat(json.getAsJsonArray("sizes")).hasSize(2);
    Path file = directory.resolve("tuning_2gpu_float16.json");
    assertThat(json.get("file").getAsString()).isEqualTo(file.toString());
    TuningTable table = TuningFile.read(file);
    assertThat(table.rules())
        .isNotEmpty()
        .allSatisfy(
            rule -> {
              assertThat(rule.dataType()).isEqualTo(DataType.FLOAT16);
              assertThat(rule.worldSize()).isEqualTo(2);
              assertThat(rule.architecture()).isEqualTo("x86_64");
            });
    assertThat(table.rules().get(table.rules().size() - 1).bytesMax()).isEqualTo(4096);
    assertThat(Journal.of(file)).doesNotExist();
  }

  /** The built-in choice for so small a message is one-shot. */
  @Test
  void aGroupWithTheTableTakesTheAlgorithmThatWon() throws Exception {
    TuneSettings settings =
        new TuneSettings(
            Backend.CPU, 2, 2, 0, DataType.FLOAT32, Collective.ALL_REDUCE, 64, 4096, 64);
    Map<Long, List<Candidate>> candidates = Map.of(64L, Grid.of(settings, 64, false));
    for (Algorithm planted : List.of(Algorithm.TWO_SHOT, Algorithm.ONE_SHOT)) {
      PlantedMeasurer measurer =
          new PlantedMeasurer(point -> point.candidate().algorithm() == planted ? 10 : 20);
      Tuner tuner = new Tuner(measurer, System::nanoTime, Long.MAX_VALUE / 4, (p, t, d, a) -> {});
      Path file = directory.resolve("tuning_2gpu_float32.json");
      TuningFile.write(
          file,
          TuningTable.of(Rules.of(settings, "x86_64", tuner.run(candidates, false))),
          "a test");
      assertThat(algorithmOfACall(TuningFile.read(file))).isEqualTo(planted.code());
    }
  }

  private int algorithmOfACall(TuningTable table) throws Exception {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).tuning(table).build();
    GroupTicket ticket = Groups.createTicket("tuned", 2, config, "127.0.0.1");
    Path record = directory.resolve("flight.json");
    List<CompletableFuture<Void>> ranks = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      int mine = rank;
      ranks.add(
          CompletableFuture.runAsync(
              () -> {
                try (CollectiveGroup group = Groups.join(ticket, mine);
                    DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 16)) {
                  group.allReduce(buffer);
                  if (mine == 0) {
                    group.writeFlightRecord(record);
                  }
                  group.barrier();
                } catch (IOException e) {
                  throw new java.io.UncheckedIOException(e);
                }
              }));
    }
    for (CompletableFuture<Void> rank : ranks) {
      rank.get(60, TimeUnit.SECONDS);
    }
    return Files.readAllLines(record).stream()
        .map(line -> JsonParser.parseString(line).getAsJsonObject())
        .filter(line -> line.has("algorithm"))
        .findFirst()
        .orElseThrow()
        .get("algorithm")
        .getAsInt();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--ranks 1 | --ranks is 1, must be 2 to 8",
        "--ranks 9 | --ranks is 9, must be 2 to 8",
        "--min 8K --max 4K | --min is 8192 bytes, more than --max, 4096",
        "--factor 1 | --factor is 1, must be 2 to 1024",
        "--top 0 | --top is 0, must be 1 to 1000",
        "--gpus 2 | --gpus is for --backend cuda",
        "--collective reduce | --collective is reduce, and on the CPU only all-reduce has a choice",
        "--output /nonexistent/table.json | --output is /nonexistent/table.json, and there is no directory /nonexistent",
      })
  void aWrongOptionIsNamed(String options, String sentence) {
    assertThat(run(options.split(" "))).isEqualTo(2);
    assertThat(err.toString()).isEqualTo(sentence);
  }

  @Test
  void aTimeThatIsNoneIsNamed() {
    assertThat(run("--budget", "1h")).isEqualTo(2);
    assertThat(err.toString()).contains("'1h', must be a time such as 60s or 5m");
  }

  @Test
  void aDamagedTableIsNotOverwrittenAndNothingIsMeasured() throws IOException {
    Path file = Files.writeString(directory.resolve("table.json"), "{");
    assertThat(runWith(directory, "--output", file.toString())).isEqualTo(1);
    assertThat(err.toString()).contains("the tuning file " + file + " cannot be used");
    assertThat(file).hasContent("{");
  }

  @Test
  void aProgramThatFailsIsQuotedAndLeavesNoTable() throws IOException {
    Path program = directory.resolve("nvrar_bench");
    Files.writeString(program, "#!/bin/sh\necho 'nvrar_bench: no luck' >&2\nexit 1\n");
    assertThat(program.toFile().setExecutable(true)).isTrue();
    Path tables = Files.createDirectory(directory.resolve("tables"));
    assertThat(runWith(directory, "--output", tables.toString())).isEqualTo(1);
    assertThat(err.toString()).isEqualTo("nvrar_bench cannot measure: no luck");
    assertThat(tables).isEmptyDirectory();
    Files.delete(program);
    assertThat(runWith(directory, "--output", tables.toString())).isEqualTo(1);
    assertThat(err.toString())
        .contains("is not built; bin/nvrar bench and bin/nvrar tune build it");
  }

  /** A run takes long enough for another one, or a person, to change the table. */
  @Test
  void rulesThatComeWhileItMeasuresAreKept() throws IOException {
    Path table = directory.resolve("table.json");
    Path program = directory.resolve("nvrar_bench");
    Files.writeString(
        program,
        String.format(
            Locale.ROOT,
            """
        #!/bin/sh
        echo '{"architecture": 1, "device": "CPU", "library": "a build"}'
        while read -r point; do
          echo '{"version": 1, "rules": [{"worldSize": 7, "bytesMax": 5, "algorithm": "TWO_SHOT"}]}' > '%s'
          echo '{"median": 10, "least": 9, "most": 11, "wrong": 0}'
        done
        """,
            table));
    assertThat(program.toFile().setExecutable(true)).isTrue();
    assertThat(runWith(directory, "--min", "64", "--max", "64", "--output", table.toString()))
        .as(err.toString())
        .isZero();
    assertThat(TuningFile.read(table).rules())
        .extracting(TuningTable.Rule::worldSize)
        .containsExactlyInAnyOrder(2, 7);
    assertThat(Journal.of(table)).doesNotExist();
  }
}
