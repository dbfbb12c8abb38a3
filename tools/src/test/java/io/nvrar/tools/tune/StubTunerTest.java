package io.nvrar.tools.tune;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.TuningTable.Collective;
import io.nvrar.tools.bench.measure.StubKernel;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** On the stub of libcuda, whose kernel takes a planted time, measured by its events. */
@Tag("stub-cuda")
@Tag("kernels")
class StubTunerTest {
  private static final long BYTES = 1 << 20;
  private static final int WARPS_OF_TILE = 4;
  private static final int WARP = 32;
  private static final int BUILT_IN_BLOCKS = 100;
  private static final int BUILT_IN_TILES = 1;
  private static final int FASTEST_US = 200;
  // Longer than the other tests of this machine may interrupt the fastest launch.
  private static final int OTHERS_US = 2000;
  private static final Candidate PLANTED = new Candidate(Algorithm.TWO_SHOT, 64, 4);

  private static int threads(int tiles) {
    return (tiles == 0 ? BUILT_IN_TILES : tiles) * WARPS_OF_TILE * WARP;
  }

  @Test
  void theTunerFindsTheLaunchThatIsFastest() throws IOException {
    TuneSettings settings =
        new TuneSettings(
            Backend.CUDA, 4, 4, 0, DataType.BFLOAT16, Collective.ALL_REDUCE, BYTES, BYTES, 2);
    List<Candidate> twoShots =
        Grid.of(settings, BYTES, false).stream()
            .filter(candidate -> candidate.algorithm() == Algorithm.TWO_SHOT)
            .toList();
    assertThat(twoShots).contains(PLANTED).hasSizeGreaterThan(10);
    try (StubKernel kernel =
            new StubKernel(
                (blocks, threads) ->
                    blocks == PLANTED.blocks() && threads == threads(PLANTED.tiles())
                        ? FASTEST_US
                        : OTHERS_US);
        Measurer measurer = new OnStub(kernel)) {
      Tuner tuner =
          new Tuner(
              measurer, System::nanoTime, TimeUnit.SECONDS.toNanos(60), (p, t, done, all) -> {});
      Tuner.Found found = tuner.run(Map.of(BYTES, twoShots), false).get(0);
      assertThat(found.winner().candidate()).isEqualTo(PLANTED);
      assertThat(found.winner().timing().us()).isBetween((double) FASTEST_US, (double) OTHERS_US);
    }
  }

  private record OnStub(StubKernel kernel) implements Measurer {
    @Override
    public Timing measure(Point point) {
      Candidate candidate = point.candidate();
      int blocks = candidate.blocks() == 0 ? BUILT_IN_BLOCKS : candidate.blocks();
      double[] us = new double[point.repeats()];
      Arrays.setAll(us, i -> kernel.us(blocks, threads(candidate.tiles())));
      Arrays.sort(us);
      // Interruptions only add time, so the fastest launch is the one that none of them met.
      return new Timing(us[0], us[0], us[us.length - 1], 0);
    }

    @Override
    public void close() {}
  }
}
