package io.nvrar.tools.bench.results;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.measure.JavaRun;
import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ResultsTest {
  private static final Settings SETTINGS = TestSettings.onHost(4, 1024, 4096, 4, 0, -1, 3);

  private static Row row(Implementation from, long bytes, double us, long wrong) {
    return Row.of(
        from,
        SETTINGS,
        CollectiveValues.ofSize(SETTINGS, bytes),
        Row.OUT_OF_PLACE,
        Mode.CALLS,
        List.of(us),
        wrong);
  }

  private static Results results() {
    return new Results(
        List.of(
            row(Implementation.CPP, 1024, 10, 0),
            row(Implementation.CPP, 4096, 30, 0),
            row(Implementation.JAVA, 1024, 10.4, 0),
            row(Implementation.JAVA, 4096, 33, 0),
            row(Implementation.OPEN_MPI, 1024, 8, 0),
            row(Implementation.OPEN_MPI, 4096, 40, 0)));
  }

  @Test
  void timeOfARowIsTheMedianOfTheSlowestRank() {
    List<Batch> fast = List.of(batch(1, 0), batch(9, 0), batch(2, 0));
    List<Batch> slow = List.of(batch(5, 1), batch(3, 0), batch(4, 2));
    List<Row> rows = JavaRun.rows(SETTINGS, List.of(fast, slow));
    assertThat(rows).hasSize(1);
    // Per batch the slower of both: 5, 9, 4.
    assertThat(rows.get(0).timeUs()).isEqualTo(5);
    assertThat(rows.get(0).timeMaxUs()).isEqualTo(9);
    assertThat(rows.get(0).wrong()).isEqualTo(3);
    assertThat(rows.get(0).algbwGbps()).isCloseTo(1024 / 5.0 * 1e-3, within(1e-9));
    assertThat(rows.get(0).busbwGbps()).isCloseTo(1.5 * 1024 / 5.0 * 1e-3, within(1e-9));
  }

  private static Batch batch(double us, long wrong) {
    return new Batch(1024, Row.OUT_OF_PLACE, "calls", us, wrong);
  }

  @Test
  void roundsBecomeTheirMedianAndNoWrongElementIsLost() {
    Row merged =
        Row.merge(
            List.of(
                row(Implementation.CPP, 1024, 30, 0),
                row(Implementation.CPP, 1024, 10, 7),
                row(Implementation.CPP, 1024, 20, 0)));
    assertThat(merged.timeUs()).isEqualTo(20);
    assertThat(merged.timeMinUs()).isEqualTo(10);
    assertThat(merged.wrong()).isEqualTo(7);
    assertThat(merged.algbwGbps()).isCloseTo(1024 / 20.0 * 1e-3, within(1e-9));
  }

  @Test
  void roundWithoutTimeLeavesTheBandwidthToTheOthers() {
    Row none = row(Implementation.CPP, 1024, 0, 0);
    assertThat(none.algbwGbps()).isZero();
    Row merged =
        Row.merge(
            List.of(
                none, row(Implementation.CPP, 1024, 4, 0), row(Implementation.CPP, 1024, 8, 0)));
    assertThat(merged.timeUs()).isEqualTo(4);
    assertThat(merged.algbwGbps()).isCloseTo(1024 / 4.0 * 1e-3, within(1e-9));
  }

  @Test
  void rowThatIsWrittenIsReadBackTheSame() {
    Row row = row(Implementation.OPEN_MPI, 4096, 12.5, 3);
    assertThat(Row.parse(row.toCsv()).toCsv()).isEqualTo(row.toCsv());
    assertThat(row.toCsv().split(",", -1)).hasSameSizeAs(Row.HEADER.split(",", -1));
  }

  @Test
  void comparisonNamesTheSizesThatFallShortAndWhatJavaAdds() {
    Part part = results().parts().get(0);
    assertThat(TextReport.summary(part))
        .contains(
            "C++ against Open MPI, 1 KiB to 1 MiB: 0.75 to 1.25 times its time; the target, at most 1.00, is missed at 1024 B (1.25).",
            "C++ against Open MPI, all sizes: 0.75 to 1.25 times its time; the target, at most 1.50, is met at every size.",
            "From Java a call takes 0.40 us more than from C++ (median of the sizes up to 1 KiB); the target, at most 1.00 us, is met at every size.");
  }

  @Test
  void timeOfZeroHasNoRatio() {
    Results results =
        new Results(
            List.of(
                row(Implementation.CPP, 1024, 0, 0),
                row(Implementation.CPP, 4096, 30, 0),
                row(Implementation.OPEN_MPI, 1024, 0, 0),
                row(Implementation.OPEN_MPI, 4096, 0, 0)));
    String page = MarkdownReport.text("2 cores", "bin/nvrar bench", results);
    assertThat(page)
        .contains("| 1024 | 0.00 |  | 0.00 |  |  |", "| 4096 | 30.00 |  | 0.00 |  |  |");
    assertThat(TextReport.summary(results.parts().get(0))).isEmpty();
  }

  @Test
  void callThatTakesTooMuchMoreFromJavaIsNamedAtSmallSizesOnly() {
    Results results =
        new Results(
            List.of(
                row(Implementation.CPP, 512, 5, 0),
                row(Implementation.CPP, 1024, 5, 0),
                row(Implementation.CPP, 4096, 5, 0),
                row(Implementation.JAVA, 512, 6, 0),
                row(Implementation.JAVA, 1024, 7.25, 0),
                row(Implementation.JAVA, 4096, 50, 0)));
    assertThat(TextReport.summary(results.parts().get(0)))
        .containsExactly(
            "From Java a call takes 1.63 us more than from C++ (median of the sizes up to 1 KiB); the target, at most 1.00 us, is missed at 1024 B (2.25).");
  }

  @Test
  void tableHasARatioToOpenMpiForEachImplementation() {
    StringWriter out = new StringWriter();
    TextReport.print(results(), new PrintWriter(out, true));
    assertThat(out.toString())
        .containsPattern("1024 +256 +float32 +sum +-1 +c\\+\\+ \\| +10.00 .* 1.25\\R")
        .containsPattern("4096 +1024 +float32 +sum +-1 +java \\| +33.00 .* 0.8[23]\\R");
  }

  @Test
  void documentKeepsWhatStandsAroundTheTables(@TempDir Path directory) throws Exception {
    Path page =
        Files.writeString(
            directory.resolve("page.md"),
            "# Title\n\n"
                + MarkdownReport.Place.HOST.begin
                + "\nold\n"
                + MarkdownReport.Place.HOST.end
                + "\n\nrest\n");
    MarkdownReport.write(page, MarkdownReport.Place.HOST, "2 cores", "bin/nvrar bench", results());
    MarkdownReport.write(page, MarkdownReport.Place.HOST, "2 cores", "bin/nvrar bench", results());
    String text = Files.readString(page);
    assertThat(text).startsWith("# Title\n\n").endsWith("\n\nrest\n").doesNotContain("old");
    assertThat(text).containsOnlyOnce("| 1024 | 10.00 | 10.40 | 8.00 | 1.25 | 0.40 |");
  }

  @Test
  void theHostsOfAProgramsRowAreInItsFieldsAndInTheTitle() {
    String ofProgram = row(Implementation.CPP, 1024, 10, 0).toCsv().replaceAll(",1$", "");
    Row row = Row.parseOfProgram(ofProgram, 2);
    assertThat(row.hosts()).isEqualTo(2);
    assertThat(Row.merge(List.of(row, row)).toCsv()).endsWith(",calls,2");
    assertThat(new Results(List.of(row)).parts().get(0).title())
        .isEqualTo("all-reduce, float32 sum, 4 processes on 2 hosts");
  }
}
