package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Cells that are finished are kept when others fail. */
final class CellByCellTest {
  private static final List<BenchCell> CELLS = List.of(cell(1), cell(8), cell(32));
  private static final BenchReport BEGUN =
      new BenchReport(
          "bin/nvrar decode-bench",
          "random weights of 8b",
          "NVIDIA H100",
          1,
          "fast",
          16_000_000_000L,
          8,
          3.1e12,
          true,
          List.of(new FirstToken("slices", 128, 0.0123)),
          List.of(),
          List.of());

  private final List<BenchReport> kept = new ArrayList<>();

  @Test
  void eachFinishedCellIsKeptAtOnce() throws Exception {
    BenchReport report =
        new CellByCell("nvrar", false, kept::add).measure(BEGUN, CELLS, CellByCellTest::row);
    assertThat(report.results()).extracting(BenchRow::batch).containsExactly(1, 8, 32);
    assertThat(report.problem()).isEmpty();
    assertThat(kept).extracting(each -> each.results().size()).containsExactly(1, 2, 3);
  }

  @Test
  void aFailureEndsTheCellsOfOneGroupAndIsSaidOfEach(@TempDir Path directory) throws Exception {
    BenchReport report =
        new CellByCell("nvrar", false, kept::add)
            .measure(BEGUN, CELLS, failingAt(8, new IllegalStateException("rank 1 was lost")));
    assertThat(report.results()).extracting(BenchRow::batch).containsExactly(1);
    assertThat(report.failures())
        .containsExactly(
            new BenchFailure("nvrar", 8, 1024, "rank 1 was lost"),
            new BenchFailure("nvrar", 32, 1024, "a cell before it has failed"));
    assertThat(report.problem())
        .isEqualTo("At batch 8 and context 1024 nvrar was not measured: rank 1 was lost.");
    assertThat(kept).last().isEqualTo(report);

    StringWriter text = new StringWriter();
    report.print(new PrintWriter(text, true));
    assertThat(text.toString()).contains(report.problem()).containsPattern("nvrar +nvrar +1 +1024");
    assertThat(report.markdown()).contains(report.problem(), "| nvrar | nvrar | 1 | 1024 |");
    Path json = directory.resolve("report.json");
    report.writeJson(json);
    JsonObject parsed = JsonParser.parseString(Files.readString(json)).getAsJsonObject();
    assertThat(parsed.getAsJsonArray("results")).hasSize(1);
    assertThat(parsed.getAsJsonArray("failures").get(0).getAsJsonObject().get("problem"))
        .hasToString("\"rank 1 was lost\"");
  }

  @Test
  void processesOfTheirOwnGoOnAfterAFailure() throws Exception {
    BenchReport report =
        new CellByCell("PyTorch", true, kept::add)
            .measure(BEGUN, CELLS, failingAt(8, new IOException("it ended with code 1")));
    assertThat(report.results()).extracting(BenchRow::batch).containsExactly(1, 32);
    assertThat(report.problem())
        .isEqualTo("At batch 8 and context 1024 PyTorch was not measured: it ended with code 1.");
  }

  @Test
  void aWrongResultOfOursIsAProblemOfTheRun() throws Exception {
    BenchReport report =
        new CellByCell("nvrar", false, kept::add)
            .measure(BEGUN, CELLS, cell -> List.of(row(cell, cell.batch() == 8 ? "is wrong" : "")));
    assertThat(report.problem()).isEqualTo("At batch 8 and context 1024 is wrong.");
  }

  @Test
  void aReportThatCannotBeKeptIsNoFailureOfACell() {
    assertThatThrownBy(
            () ->
                new CellByCell(
                        "nvrar",
                        true,
                        report -> {
                          throw new IOException("the disk is full");
                        })
                    .measure(BEGUN, CELLS, CellByCellTest::row))
        .isInstanceOf(IOException.class)
        .hasMessage("the disk is full");
  }

  private static BenchCell cell(int batch) {
    return new BenchCell(batch, 1024, 32, 0, 1);
  }

  private static CellByCell.Measurement failingAt(int batch, Exception failure) {
    return cell -> {
      if (cell.batch() == batch && failure instanceof IOException e) {
        throw e;
      }
      if (cell.batch() == batch && failure instanceof RuntimeException e) {
        throw e;
      }
      return row(cell);
    };
  }

  private static List<BenchRow> row(BenchCell cell) {
    return List.of(row(cell, ""));
  }

  private static BenchRow row(BenchCell cell, String problem) {
    RankTimes times = new RankTimes(new double[] {2}, new double[0], new int[] {7}, true, problem);
    return BenchRow.of(cell, BenchRow.NVRAR, List.of(times), new StepFloor(900, 100, 1e6));
  }
}
