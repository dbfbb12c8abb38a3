package io.nvrar.tools.bench.plots;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import io.nvrar.tools.bench.results.Results;
import io.nvrar.tools.bench.results.TestRows;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlotsTest {
  private static final List<Plot> ON_HOST =
      Plots.of(
          new Results(
              List.of(
                  TestRows.onHost(Implementation.CPP, 4096, 40.0, 20.0, 30.0),
                  TestRows.onHost(Implementation.CPP, 1024, 10.0),
                  TestRows.inPlace(TestRows.onHost(Implementation.CPP, 512, 5.0)),
                  TestRows.onHost(Implementation.JAVA, 1024, 12.0),
                  TestRows.onHost(Implementation.OPEN_MPI, 1024, 8.0),
                  TestRows.onHost(Implementation.OPEN_MPI, 4096, 60.0))));

  @Test
  void linesAreByImplementationAndAscendAndABandReachesFromTheFastestToTheSlowestBatch() {
    assertThat(ON_HOST.stream().map(Plot::name))
        .containsExactly(
            "all-reduce-float32-sum-4-processes-time",
            "all-reduce-float32-sum-4-processes-bus-bandwidth",
            "all-reduce-float32-sum-4-processes-speed-up");
    Plot time = ON_HOST.get(0);
    // Java was measured at one size, which is no line.
    assertThat(time.lines().stream().map(Line::name)).containsExactly("c++", "open-mpi");
    assertThat(time.lines().get(0).points())
        .containsExactly(new Point(1024, 10, 10, 10), new Point(4096, 30, 20, 40));

    Point bandwidth = ON_HOST.get(1).lines().get(0).points().get(1);
    assertThat(bandwidth.value()).isCloseTo(1.5 * 4096 / 30 * 1e-3, within(1e-9));
    assertThat(bandwidth.least()).isCloseTo(1.5 * 4096 / 40 * 1e-3, within(1e-9));
    assertThat(bandwidth.most()).isCloseTo(1.5 * 4096 / 20 * 1e-3, within(1e-9));
  }

  @Test
  void speedUpIsThePeersTimeOverOursWithOurBand() {
    Plot speedUp = ON_HOST.get(2);
    assertThat(speedUp.title())
        .isEqualTo("all-reduce, float32 sum, 4 processes: speed-up over open-mpi");
    assertThat(speedUp.lines()).hasSize(1);
    assertThat(speedUp.lines().get(0).points())
        .containsExactly(new Point(1024, 0.8, 0.8, 0.8), new Point(4096, 2, 1.5, 3));
  }

  @Test
  void onGpusEachModeHasItsPicturesAndTheFastestPeerOfEachSizeCounts() {
    List<Plot> plots =
        Plots.of(
            new Results(
                List.of(
                    TestRows.onGpus(Implementation.CPP, 1024, Mode.GRAPH, 2.0),
                    TestRows.onGpus(Implementation.CPP, 4096, Mode.GRAPH, 4.0),
                    TestRows.onGpus(Implementation.STUDY, 1024, Mode.GRAPH, 1.0),
                    TestRows.onGpus(Implementation.STUDY, 4096, Mode.GRAPH, 1.0),
                    TestRows.inPlace(TestRows.onGpus(Implementation.NCCL, 1024, Mode.GRAPH, 8.0)),
                    TestRows.inPlace(TestRows.onGpus(Implementation.NCCL, 4096, Mode.GRAPH, 6.0)),
                    TestRows.onGpus(Implementation.TORCH_TWO_SHOT, 1024, Mode.GRAPH, 5.0),
                    TestRows.onGpus(Implementation.TORCH_TWO_SHOT, 4096, Mode.GRAPH, 9.0),
                    TestRows.onGpus(Implementation.CPP, 1024, Mode.EAGER_COMPUTE, 3.0),
                    TestRows.onGpus(Implementation.CPP, 4096, Mode.EAGER_COMPUTE, 3.5))));
    assertThat(plots.stream().map(Plot::name))
        .containsExactly(
            "all-reduce-bfloat16-sum-4-ranks-graph-time",
            "all-reduce-bfloat16-sum-4-ranks-graph-bus-bandwidth",
            "all-reduce-bfloat16-sum-4-ranks-graph-speed-up",
            "all-reduce-bfloat16-sum-4-ranks-eager-compute-time",
            "all-reduce-bfloat16-sum-4-ranks-eager-compute-bus-bandwidth");
    Plot speedUp = plots.get(2);
    assertThat(speedUp.title())
        .endsWith("graph: speed-up over the fastest of torch-two-shot, nccl");
    // The study is no peer, and has none.
    assertThat(speedUp.lines().stream().map(Line::name))
        .containsExactly(Implementation.CPP.toString());
    assertThat(speedUp.lines().get(0).points().stream().map(Point::value))
        .containsExactly(2.5, 1.5);
  }

  @Test
  void timesOfZeroHaveNoPlaceOnLogarithmicAxes() {
    List<Plot> plots =
        Plots.of(
            new Results(
                List.of(
                    TestRows.onGpus(Implementation.CPP, 512, Mode.GRAPH_COLD, 0.0),
                    TestRows.onGpus(Implementation.CPP, 1024, Mode.GRAPH_COLD, 1.0),
                    TestRows.onGpus(Implementation.CPP, 2048, Mode.GRAPH_COLD, 2.0))));
    assertThat(plots).hasSize(2);
    assertThat(plots)
        .allSatisfy(
            plot ->
                assertThat(plot.lines().get(0).points().stream().map(Point::size))
                    .containsExactly(1024L, 2048L));
  }

  @Test
  void peerWithoutATimeIsNotTheFastest() {
    List<Plot> plots =
        Plots.of(
            new Results(
                List.of(
                    TestRows.onGpus(Implementation.CPP, 1024, Mode.GRAPH, 2.0),
                    TestRows.onGpus(Implementation.CPP, 4096, Mode.GRAPH, 4.0),
                    TestRows.onGpus(Implementation.NCCL, 1024, Mode.GRAPH, 8.0),
                    TestRows.onGpus(Implementation.NCCL, 4096, Mode.GRAPH, 6.0),
                    TestRows.onGpus(Implementation.TORCH_TWO_SHOT, 1024, Mode.GRAPH, 0.0))));
    Plot speedUp = plots.get(2);
    assertThat(speedUp.title()).endsWith("speed-up over nccl");
    assertThat(speedUp.lines().get(0).points().stream().map(Point::value))
        .containsExactly(4.0, 1.5);
  }
}
