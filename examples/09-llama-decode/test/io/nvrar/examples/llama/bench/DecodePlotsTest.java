package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.tools.bench.plots.Plot;
import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class DecodePlotsTest {
  private static BenchRow row(String whose, String allReduce, int batch, int context, double ms) {
    return new BenchRow(
        whose, allReduce, 2, batch, context, ms, ms - 0.1, ms + 0.2, 1, 0.5, 1, null, null, "");
  }

  private static BenchReport report(BenchRow... rows) {
    return new BenchReport(
        "bin/nvrar decode-bench",
        "random weights of 8b",
        "a GPU",
        2,
        "fast",
        1,
        1,
        1,
        true,
        List.of(),
        List.of(rows),
        List.of());
  }

  private final BenchReport measured =
      report(
          row("nvrar", "nvrar", 8, 1024, 4),
          row("nvrar", "nvrar", 1, 1024, 3),
          row("nvrar", "nccl", 1, 1024, 5),
          row("nvrar", "nccl", 8, 1024, 6),
          row("PyTorch 2", "two-shot", 1, 1024, 7),
          row("PyTorch 2", "two-shot", 8, 1024, 8),
          row("PyTorch 2", "nccl", 1, 1024, 9),
          row("nvrar", "nvrar", 1, 8192, 3));

  @Test
  void eachContextWithTwoBatchesHasAPictureOfWhatWasMeasuredThere() {
    List<Plot> plots = DecodePlots.of(measured);
    assertThat(plots).hasSize(1);
    Plot plot = plots.get(0);
    assertThat(plot.name()).isEqualTo("decode-2-ranks-context-1024");
    assertThat(plot.lines().stream().map(Line::name))
        .containsExactly("nvrar", "the same with NCCL", "PyTorch, two-shot", "floor");
    assertThat(plot.lines().get(0).points())
        .containsExactly(new Point(1, 3, 2.9, 3.2), new Point(8, 4, 3.9, 4.2));
    assertThat(plot.lines().get(3).points().get(1)).isEqualTo(new Point(8, 0.5, 0.5, 0.5));
  }

  @Test
  void whatWasWrittenAsJsonIsReadAndDrawn(@TempDir Path directory) throws Exception {
    Path json = directory.resolve("report.json");
    measured.writeJson(json);
    BenchReport read = BenchReport.read(json);
    assertThat(read).isEqualTo(measured);
    read.draw(directory.resolve("plots"));
    assertThat(directory.resolve("plots"))
        .isDirectoryContaining("glob:**/decode-2-ranks-context-1024.png")
        .isDirectoryContaining("glob:**/decode-2-ranks-context-1024.svg");
  }

  @Test
  void anotherFileIsRefusedInASentence(@TempDir Path directory) throws Exception {
    Path file = directory.resolve("x.json");
    for (String text : List.of("", "[]", "{}", "{\"results\": 3}", "no JSON")) {
      Files.writeString(file, text);
      assertThatThrownBy(() -> BenchReport.read(file))
          .isInstanceOf(ModelException.class)
          .hasMessage(file + " is not what decode-bench --json writes.");
    }
    Path missing = directory.resolve("missing.json");
    assertThatThrownBy(() -> BenchReport.read(missing))
        .isInstanceOf(ModelException.class)
        .hasMessageStartingWith(missing + " cannot be read: ");
  }
}
