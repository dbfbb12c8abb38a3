package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import com.google.gson.JsonObject;
import io.nvrar.tools.bench.results.Report;
import io.nvrar.tools.bench.results.ResultLine;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Lines of decode steps; cells that are finished are kept when others fail. */
public final class DecodeResultsTest {
  private static final BenchCell CELL = cell(8);
  private static final List<BenchCell> CELLS = List.of(cell(1), CELL, cell(32));
  private static final StepFloor FLOOR = new StepFloor(900, 100, 1e6);

  private final List<Integer> kept = new ArrayList<>();
  private final DecodeResults results =
      new DecodeResults(
          ResultLine.ofRun("NVIDIA H100", "bin/nvrar decode-bench", Map.of()),
          lines -> kept.add(lines.size()));

  @Test
  void ofABlockTheSlowestRankCountsAndOfTheBlocksTheMedian() {
    JsonObject line =
        DecodeResults.line(
            CELL,
            DecodeResults.NVRAR,
            List.of(rank(1.0, 1.0, 4.0, 7, ""), rank(2.0, 3.0, 1.0, 7, "")),
            FLOOR);
    // The blocks take 2, 3 and 4 ms, and without all-reduces half as long.
    assertThat(line.get("median").getAsDouble()).isEqualTo(3);
    assertThat(line.get("least").getAsDouble()).isEqualTo(2);
    assertThat(line.get("most").getAsDouble()).isEqualTo(4);
    assertThat(line.get("floor").getAsDouble()).isCloseTo(1, within(1e-9));
    assertThat(line.get("without").getAsDouble()).isCloseTo(1.5, within(1e-9));
    assertThat(line.get("problem").getAsString()).isEmpty();
  }

  @Test
  void differentTokensOfRanksAreAProblemAndSoIsWhatARankSays() {
    assertThat(problem(rank(1, 1, 1, 7, ""), rank(1, 1, 1, 8, "")))
        .isEqualTo("the ranks have different tokens");
    assertThat(problem(rank(1, 1, 1, 7, ""), rank(1, 1, 1, 7, "no"))).isEqualTo("no");
  }

  private static String problem(RankTimes... ranks) {
    return DecodeResults.line(CELL, DecodeResults.NVRAR, List.of(ranks), FLOOR)
        .get("problem")
        .getAsString();
  }

  @Test
  void tokensOfTimedAndOfFedStepsMustBeThoseOfADecode() {
    int[] tokens = {1, 2, 3, 4, 5, 6};
    assertThat(StepBench.problem(new int[] {5, 6}, tokens, new int[] {1, 2, 3, 4})).isEmpty();
    assertThat(StepBench.problem(new int[] {5, 7}, tokens, new int[] {1, 2, 3, 4}))
        .isEqualTo("the tokens of timed steps are not those of a decode");
    assertThat(StepBench.problem(new int[] {5, 6}, tokens, new int[] {1, 2, 3, 5}))
        .isEqualTo("the tokens of captured steps are not those of steps that the host feeds");
  }

  @Test
  void eachFinishedCellIsKeptAtOnceAndFound() throws Exception {
    results.measure("nvrar", false, CELLS, DecodeResultsTest::lines);
    assertThat(kept).containsExactly(1 + 2, 1 + 4, 1 + 6);
    assertThat(results.hasFailed()).isFalse();
    JsonObject ours = results.oursOf(CELL).orElseThrow();
    assertThat(ours.getAsJsonObject("shape").get("batch").getAsInt()).isEqualTo(8);
    assertThat(ours.getAsJsonObject("shape").get("all_reduce").getAsString()).isEqualTo("nvrar");
    assertThat(results.oursOf(cell(2))).isEmpty();
  }

  @Test
  void theFirstStepIsThereWhicheverAllReducesItHas() throws Exception {
    assertThat(results.first()).isEmpty();
    results.measure("nvrar", false, List.of(CELL), cell -> lines(cell).subList(0, 1));
    assertThat(results.oursOf(CELL)).isEmpty();
    assertThat(results.first().orElseThrow().get("median").getAsDouble()).isEqualTo(4);
  }

  @Test
  void aFailureEndsTheCellsOfOneGroupAndIsSaidOfEach() throws Exception {
    results.measure("nvrar", false, CELLS, failingAt(8, new IllegalStateException("lost")));
    assertThat(kept).containsExactly(1 + 2, 1 + 3, 1 + 4);
    assertThat(results.hasFailed()).isTrue();
    assertThat(results.lines().subList(3, 5))
        .extracting(line -> line.get("problem").getAsString())
        .containsExactly("lost", "a cell before it has failed");
  }

  @Test
  void processesOfTheirOwnGoOnAfterAFailure() throws Exception {
    results.measure("PyTorch", true, CELLS, failingAt(8, new IOException("it ended with code 1")));
    assertThat(kept).containsExactly(1 + 2, 1 + 3, 1 + 5);
  }

  @Test
  void aReportThatCannotBeKeptIsNoFailureOfACell() {
    DecodeResults full =
        new DecodeResults(
            new JsonObject(),
            lines -> {
              throw new IOException("the disk is full");
            });
    assertThatThrownBy(() -> full.measure("nvrar", true, CELLS, DecodeResultsTest::lines))
        .isInstanceOf(IOException.class)
        .hasMessage("the disk is full");
  }

  /** Where the report is, above the module of the tests. */
  public static Path checkout() {
    @Nullable Path directory = Path.of("").toAbsolutePath();
    while (directory != null && !Files.isDirectory(directory.resolve("native/bench/report"))) {
      directory = directory.getParent();
    }
    return Objects.requireNonNull(directory, "the tests do not run in a checkout");
  }

  @Test
  void theReportReadsTheLines() throws Exception {
    results.addFirstToken(128, "slices", 12.3);
    results.measure("nvrar", false, List.of(CELL), DecodeResultsTest::lines);
    JsonObject ours = results.oursOf(CELL).orElseThrow();
    results.measure("PyTorch", true, List.of(CELL), cell -> TorchDecode.lines(written(), ours));
    StringWriter out = new StringWriter();
    Report report = new Report(checkout(), new PrintWriter(out), new PrintWriter(out));
    assertThat(report.ofLines(List.of(), results.lines())).isZero();
    assertThat(out.toString())
        .contains(
            "The first token of a prompt of 128 comes after 12.3 ms (prefill: slices).",
            "At batch 8 and context 1024 a step takes 0.50 of the same with NCCL's all-reduces.",
            "At batch 8 and context 1024 a step takes 0.40 of the fastest of PyTorch 2.9, that with one-shot.")
        .containsPattern("PyTorch 2.9 +one-shot +8 +1024 +5.000 .* 1.000 +20.0 .* ok");
  }

  private static List<String> written() {
    return List.of(
        "{\"kind\": \"run\"}",
        "{\"kind\": \"decode\", \"library\": \"PyTorch 2.9\", \"shape\": {\"name\": \"decode\", \"ranks\": 1,"
            + " \"batch\": 8, \"context\": 1024, \"all_reduce\": \"one-shot\"}, \"unit\": \"ms\","
            + " \"median\": 5, \"least\": 4, \"most\": 6, \"without\": 4, \"problem\": \"\"}");
  }

  @Test
  void scriptThatHasWrittenNoResultIsSaid() {
    JsonObject ours = new JsonObject();
    assertThatThrownBy(() -> TorchDecode.lines(List.of("{\"kind\": \"run\"}"), ours))
        .isInstanceOf(IOException.class)
        .hasMessage("torch_decode.py has not measured the cell");
    for (String text : List.of("", "[]", "{", "null", "{\"kind\": []}")) {
      assertThatThrownBy(() -> TorchDecode.lines(List.of(text), ours))
          .as(text)
          .isInstanceOf(IOException.class);
    }
  }

  private static BenchCell cell(int batch) {
    return new BenchCell(batch, 1024, 32, 0, 1);
  }

  private static DecodeResults.Measurement failingAt(int batch, Exception failure) {
    return cell -> {
      if (cell.batch() == batch && failure instanceof IOException e) {
        throw e;
      }
      if (cell.batch() == batch && failure instanceof RuntimeException e) {
        throw e;
      }
      return lines(cell);
    };
  }

  /** With NCCL's all-reduces and with ours. */
  private static List<JsonObject> lines(BenchCell cell) {
    return List.of(
        DecodeResults.line(cell, DecodeResults.NCCL, List.of(rank(4, 4, 4, 7, "")), FLOOR),
        DecodeResults.line(cell, DecodeResults.NVRAR, List.of(rank(2, 2, 2, 7, "")), FLOOR));
  }

  private static RankTimes rank(
      double first, double second, double third, int token, String problem) {
    return new RankTimes(
        new double[] {first, second, third},
        new double[] {first / 2, second / 2, third / 2},
        new int[] {token},
        true,
        problem);
  }
}
