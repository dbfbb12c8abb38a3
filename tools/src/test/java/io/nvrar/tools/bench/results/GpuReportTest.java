package io.nvrar.tools.bench.results;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.AllReduceFusion.Form;
import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GpuReportTest {
  private static final Settings SETTINGS = TestSettings.onGpus(4, 0, -1, 30);

  private static Row row(Implementation from, long bytes, Mode mode, double us) {
    return Row.of(
        from,
        SETTINGS,
        CollectiveValues.ofSize(SETTINGS, bytes),
        Row.OUT_OF_PLACE,
        mode,
        List.of(us),
        0);
  }

  private static Results results() {
    return new Results(
        List.of(
            Row.ofGroup(Implementation.CPP, SETTINGS, 0.5e6, 104 << 20),
            row(Implementation.CPP, 1024, Mode.GRAPH, 2.9),
            row(Implementation.CPP, 4096, Mode.GRAPH, 3.5),
            row(Implementation.STUDY, 1024, Mode.GRAPH, 2.5),
            row(Implementation.STUDY, 4096, Mode.GRAPH, 3),
            row(Implementation.JAVA, 1024, Mode.GRAPH, 2.929),
            row(Implementation.JAVA, 4096, Mode.GRAPH, 3.675),
            row(Implementation.NCCL, 1024, Mode.GRAPH, 29),
            row(Implementation.NCCL, 4096, Mode.GRAPH, 7),
            row(Implementation.CPP, 1024, Mode.EAGER, 4),
            row(Implementation.JAVA, 1024, Mode.EAGER, 6.75)));
  }

  @Test
  void eachModeIsATableWithAColumnForEachThatWasMeasuredInIt() {
    List<GpuReport.Table> tables = GpuReport.tables(results().parts().get(0));
    assertThat(tables.stream().map(GpuReport.Table::title))
        .containsExactly(
            "all-reduce, bfloat16 sum, 4 ranks, graph", "all-reduce, bfloat16 sum, 4 ranks, eager");
    assertThat(tables.get(0).columns())
        .startsWith("size (B)", "c++ us", "study us", "java us", "nccl us");
    assertThat(tables.get(0).rows().get(1)).startsWith("4096", "3.50", "3.00", "3.68", "7.00");
    assertThat(tables.get(1).rows().get(1)).startsWith("4096", "", "");
  }

  @Test
  void sizesThatAControlDoesNotTakeAreBlankAndOtherCollectivesHaveTheirOwnColumns() {
    Settings gather = TestSettings.of(SETTINGS, TimedCollective.ALL_GATHER);
    List<Row> rows = new ArrayList<>();
    for (Implementation from : List.of(Implementation.CPP, Implementation.TORCH_LOW_CONTENTION)) {
      rows.add(
          Row.of(
              from,
              gather,
              CollectiveValues.ofSize(gather, 64 << 20),
              Row.OUT_OF_PLACE,
              Mode.GRAPH_COLD,
              List.of(9.0),
              0));
    }
    rows.add(row(Implementation.CPP, 64 << 20, Mode.GRAPH, 200));
    rows.add(row(Implementation.CPP, 8 << 20, Mode.GRAPH, 30));
    rows.add(row(Implementation.STUDY, 8 << 20, Mode.GRAPH, 28));
    List<Part> parts = new Results(rows).parts();
    GpuReport.Table cold = GpuReport.tables(parts.get(0)).get(0);
    assertThat(cold.title()).isEqualTo("all-gather, bfloat16, 4 ranks, graph cold");
    assertThat(cold.columns()).startsWith("size (B)", "c++ us", "torch-low-contention us");
    GpuReport.Table large = GpuReport.tables(parts.get(1)).get(0);
    assertThat(large.rows().get(0)).startsWith("8388608", "30.00", "28.00");
    assertThat(large.rows().get(1)).startsWith("67108864", "200.00", "");
  }

  @Test
  void fusedAllReducesHaveATableOfTheirOwnAndAreComparedWithTheKernelBehind() {
    FusedRows norms = new FusedRows(Form.RMS_NORM, 8192, List.of(1, 2));
    Settings fused = TestSettings.withFused(SETTINGS, norms);
    List<Row> rows = new ArrayList<>(results().rows());
    double[][] us = {{2.5, 3.75}, {3, 2.9}};
    for (int size = 0; size < us.length; size++) {
      CollectiveValues problem = CollectiveValues.ofRows(fused, norms, size + 1);
      for (Implementation from : List.of(Implementation.CPP, Implementation.CPP_APART)) {
        double time = us[size][from == Implementation.CPP ? 0 : 1];
        rows.add(Row.of(from, fused, problem, Row.OUT_OF_PLACE, Mode.GRAPH, List.of(time), 0));
      }
    }
    Results both = new Results(rows);
    Part part = both.parts().get(1);
    GpuReport.Table table = GpuReport.tables(part).get(0);
    assertThat(table.title()).isEqualTo("fused-rms-norm-8192, bfloat16 sum, 4 ranks, graph");
    assertThat(table.columns()).startsWith("size (B)", "c++ us", "c++-apart us");
    assertThat(table.rows().get(0)).startsWith("16384", "2.50", "3.75");
    assertThat(GpuReport.summary(both, part))
        .contains(
            "A fused all-reduce in a graph saves -0.10 to 1.25 us of one with a kernel behind it; the target, at least 0.00 us, is missed at 32768 B (-0.10).");
    assertThat(both.parts().get(0).rows()).hasSize(results().rows().size() - 1);
  }

  @Test
  void comparisonNamesTheSizesThatFallShort() {
    Part part = results().parts().get(0);
    assertThat(GpuReport.summary(results(), part))
        .containsExactly(
            "C++ against the study's kernels, graph: 0.40 to 0.50 us behind; the target, at most 0.40 us or 10 %, is missed at 4096 B (0.50).",
            "From Java a call in a graph takes 1.0 to 5.0 % more than from C++; the target, at most 3 %, is missed at 4096 B (5.00).",
            "From Java an eager call takes 2.75 to 2.75 us more than from C++; the target, at most 2.50 us, is missed at 1024 B (2.75).",
            "C++ against NCCL in a graph: 0.10 to 0.50 times its time; the target, at most 1.00, is met at every size.",
            "A group of 4 from c++ is made in 0.50 s and takes 104.0 MiB of a GPU's memory.");
  }

  @Test
  void timeOfZeroHasNoRatio() {
    Results results =
        new Results(
            List.of(
                row(Implementation.CPP, 1024, Mode.GRAPH, 0),
                row(Implementation.CPP, 4096, Mode.GRAPH, 2),
                row(Implementation.CPP, 8192, Mode.GRAPH, 4),
                row(Implementation.JAVA, 1024, Mode.GRAPH, 0),
                row(Implementation.JAVA, 8192, Mode.GRAPH, 4.04),
                row(Implementation.NCCL, 1024, Mode.GRAPH, 7),
                row(Implementation.NCCL, 4096, Mode.GRAPH, 0),
                row(Implementation.NCCL, 8192, Mode.GRAPH, 8)));
    assertThat(GpuReport.summary(results, results.parts().get(0)))
        .containsExactly(
            "From Java a call in a graph takes 1.0 to 1.0 % more than from C++; the target, at most 3 %, is met at every size.",
            "C++ against NCCL in a graph: 0.50 to 0.50 times its time; the target, at most 1.00, is met at every size.");
  }

  @Test
  void pageGetsTheTablesBetweenTheMarksOfGpusAndKeepsThoseOfTheCpu(@TempDir Path directory)
      throws Exception {
    String ofCpu =
        MarkdownReport.Place.HOST.begin + "\nold\n" + MarkdownReport.Place.HOST.end + "\n";
    Path page =
        Files.writeString(
            directory.resolve("page.md"),
            ofCpu
                + MarkdownReport.Place.GPUS.begin
                + "\nempty\n"
                + MarkdownReport.Place.GPUS.end
                + "\nrest\n");
    MarkdownReport.write(page, MarkdownReport.Place.GPUS, "4 GPUs", "bin/nvrar bench", results());
    String text = Files.readString(page);
    assertThat(text).startsWith(ofCpu).endsWith("\nrest\n").doesNotContain("empty");
    assertThat(text).contains("| 1024 | 2.90 | 2.50 | 2.93 | 29.00 |");
  }

  @Test
  void tablesAreLinedUp() {
    StringWriter out = new StringWriter();
    TextReport.print(results(), new PrintWriter(out, true));
    assertThat(out.toString()).containsPattern(" +1024 +2.90 +2.50 +2.93 +29.00 ");
  }
}
