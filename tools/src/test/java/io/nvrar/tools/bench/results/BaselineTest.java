package io.nvrar.tools.bench.results;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.tools.bench.results.Baseline.Series;
import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class BaselineTest {
  private static final double PART = 0.1;

  /** At five sizes, with batches that differ by 5 % to both sides. */
  private static List<Row> rows(Implementation from, double... factors) {
    return LongStream.range(0, factors.length)
        .mapToObj(
            i -> {
              double us = (i + 1) * factors[(int) i];
              return TestRows.onHost(from, 1024L << i, us, us * 0.95, us * 1.05);
            })
        .toList();
  }

  private static final List<Row> BEFORE =
      Stream.of(
              rows(Implementation.CPP, 1, 1, 1, 1, 1),
              rows(Implementation.JAVA, 1, 1, 1, 1, 1),
              rows(Implementation.OPEN_MPI, 1, 1, 1, 1, 1))
          .flatMap(List::stream)
          .toList();

  private static final Baseline BASELINE =
      new Baseline(Path.of("old.json"), new Run("a machine", "a command", BEFORE));

  private static List<String> slower(List<Row> now) throws IOException {
    return Baseline.slower(BASELINE.compare(now), PART);
  }

  @Test
  void slowerInTheMedianIsSaidOfOursAndNotOfOthers() throws IOException {
    assertThat(slower(rows(Implementation.CPP, 1.2, 1.2, 1.2, 1.2, 1.2)))
        .containsExactly("c++, all-reduce, 4 ranks, by 1.20 in the median");
    assertThat(slower(rows(Implementation.OPEN_MPI, 1.2, 1.2, 1.2, 1.2, 1.2))).isEmpty();
  }

  @Test
  void noiseIsNotSlower() throws IOException {
    assertThat(slower(rows(Implementation.CPP, 1.09, 0.9, 1.05, 1.08, 1.05))).isEmpty();
    assertThat(slower(BEFORE)).isEmpty();
  }

  @Test
  void oneSizeIsEnoughIfEvenItsFastestBatchIsSlowerThanTheSlowestBefore() throws IOException {
    assertThat(slower(rows(Implementation.JAVA, 1, 1, 1.2, 1, 1)))
        .containsExactly("java, all-reduce, 4 ranks, at 4096 B (1.20)");
    Row wide = TestRows.onHost(Implementation.JAVA, 4096, 3.0, 3.6, 3.9);
    assertThat(slower(List.of(wide, rows(Implementation.JAVA, 1, 1).get(0)))).isEmpty();
  }

  @Test
  void onlyWhatWasMeasuredInTheSameWayIsCompared() throws IOException {
    List<Row> others =
        List.of(
            TestRows.onGpus(Implementation.CPP, 1024, Mode.GRAPH, 9.0),
            TestRows.onHost(Implementation.CPP, 512, 9.0));
    assertThatThrownBy(() -> BASELINE.compare(others))
        .isInstanceOf(IOException.class)
        .hasMessage(
            "the baseline old.json has no result at the same size, type and number of ranks as these");
    assertThatThrownBy(
            () -> BASELINE.compare(List.of(TestRows.onHost(Implementation.CPP, 1024, 0.0))))
        .isInstanceOf(IOException.class);
  }

  @Test
  void baselineOfOtherThingsIsRefusedBeforeAnythingIsMeasured() throws IOException {
    Settings same = TestSettings.onHost(4, 1024, 1024, 2, 0, -1, 3);
    BASELINE.check(List.of(TestSettings.onHost(2, 1024, 1024, 2, 0, -1, 3), same));
    for (Settings other :
        List.of(
            TestSettings.onHost(2, 1024, 1024, 2, 0, -1, 3),
            TestSettings.onGpus(4, 40, 3, 30),
            TestSettings.of(same, TimedCollective.BROADCAST))) {
      assertThatThrownBy(() -> BASELINE.check(List.of(other)))
          .isInstanceOf(IOException.class)
          .hasMessage(
              "the baseline old.json has nothing of what is measured here: it is of all-reduce, float32 sum, 4 processes");
    }
  }

  @Test
  void reportHasARatioForEachSizeAndTheMedians() throws IOException {
    StringWriter text = new StringWriter();
    List<Series> compared =
        BASELINE.compare(
            Stream.concat(
                    rows(Implementation.CPP, 1.5, 1.25, 1).stream(),
                    rows(Implementation.OPEN_MPI, 1, 0.5).stream())
                .toList());
    BaselineReport.print(BASELINE, compared, new PrintWriter(text));
    assertThat(text.toString().lines().map(line -> line.strip().replaceAll(" {2,}", " | ")))
        .containsExactly(
            "",
            "Times over those of old.json, of a command",
            "",
            "all-reduce, float32 sum, 4 ranks, calls",
            "size (B) | c++ | open-mpi",
            "1024 | 1.50 | 1.00",
            "2048 | 1.25 | 0.50",
            "4096 | 1.00",
            "median | 1.25 | 0.75");
  }
}
