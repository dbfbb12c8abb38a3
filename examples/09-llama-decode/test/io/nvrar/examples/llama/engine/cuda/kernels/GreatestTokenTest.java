package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.TopK;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestReporter;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The greatest logit of 131,072 tokens on two GPUs by one call, and by the way of greedy steps: the
 * greatest of each rank, an all-gather of their keys, and a choice. Both choose the same token, and
 * the call takes no longer.
 */
@Tag("gpu")
final class GreatestTokenTest {
  private static final int RANKS = 2;
  private static final int COLUMNS = 65536;
  private static final int CALLS = 40;
  private static final int REPEATS = 21;
  private static final double NANOS_OF_MICRO = 1e3;

  @ParameterizedTest(name = "batch {0}")
  @ValueSource(ints = {1, 32})
  void aCallTakesNoLongerThanAGatherAndAChoice(int rows, TestReporter reporter) throws Exception {
    assumeTrue(Devices.unavailabilityCause(Backend.CUDA) == null, "there is no GPU");
    assumeTrue(Devices.count(Backend.CUDA) >= RANKS, "there is one GPU");
    assumeTrue(KernelImage.exists("step"), "this build has no kernels");
    GroupConfig config =
        GroupConfig.builder().backend(Backend.CUDA).cuda(cuda -> cuda.exclusive(true)).build();
    List<Times> ranks = RankThreads.run(RANKS, config, rank -> rank, group -> measure(group, rows));
    double call = ranks.stream().mapToDouble(Times::call).max().orElseThrow();
    double gather = ranks.stream().mapToDouble(Times::gather).max().orElseThrow();
    reporter.publishEntry(
        String.format(
            Locale.ROOT,
            "batch %d: argMax %.1f us, greatest of the rank + all-gather + choice %.1f us",
            rows,
            call,
            gather));
    assertThat(call).isLessThanOrEqualTo(gather);
  }

  /** Medians in microseconds. */
  private record Times(double call, double gather) {}

  private static Times measure(CollectiveGroup group, int rows) {
    try (Resources room = new Resources();
        DeviceStream stream = group.device().createStream()) {
      Gpu gpu = new Gpu(group.device());
      KernelImage image = room.own(KernelImage.load(gpu, "step"));
      StepEnds ends = new StepEnds(image, DataType.FLOAT32, DataType.FLOAT32, false);
      long first = (long) group.rank() * COLUMNS;
      RankShape shape = new RankShape(1, 64, 1, 0, 1, 0, 1, 16, 8, COLUMNS, (int) first);
      DeviceBuffer logits = room.allocate(group.device(), DataType.FLOAT32, (long) rows * COLUMNS);
      logits.copyFrom(random(group.rank(), rows * COLUMNS));
      DeviceBuffer found = room.allocate(group.device(), DataType.INT32, rows);
      TopK argMax = TopK.argMax(COLUMNS, first, found);

      StepState state = room.own(new StepState(group.device(), rows));
      for (int row = 0; row < rows; row++) {
        state.set(row, 0, 0, row);
      }
      state.write(stream);
      DeviceBuffer remaining = room.allocate(group.device(), DataType.INT32, rows);
      int[] wanted = new int[rows];
      Arrays.fill(wanted, Integer.MAX_VALUE);
      remaining.copyFrom(wanted);
      DeviceBuffer end = room.allocate(group.device(), DataType.INT32, 1);
      end.copyFrom(new int[] {-3});
      DeviceBuffer step = room.zeroed(gpu, stream, DataType.INT32, 1);
      DeviceBuffer best = room.zeroed(gpu, stream, DataType.INT64, rows);
      DeviceBuffer keys = room.zeroed(gpu, stream, DataType.INT64, (long) rows * RANKS);
      TokenRing ring = room.own(new TokenRing(gpu, group, stream, 64, rows));
      StepEnds.Next next =
          new StepEnds.Next(state, remaining, end, step, ring.words(), rows, ring.steps());

      DeviceGraph calls = graph(room, group, stream, () -> group.topK(logits, argMax, stream));
      DeviceGraph gathers =
          graph(
              room,
              group,
              stream,
              () -> {
                ends.bestOfLogits(stream, rows, shape, logits, RowSampling.GREEDY, best);
                group.allGather(best, keys, stream);
                ends.choose(stream, next, keys, RANKS);
              });
      double[] call = new double[REPEATS];
      double[] gather = new double[REPEATS];
      for (int i = 0; i < REPEATS; i++) {
        call[i] = micros(group, stream, calls);
        gather[i] = micros(group, stream, gathers);
      }
      int[] tokens = new int[rows];
      int[] chosen = new int[rows];
      found.copyTo(tokens, stream);
      state.tokens().copyTo(chosen, stream);
      assertThat(tokens).isEqualTo(chosen);
      return new Times(median(call), median(gather));
    }
  }

  private static DeviceGraph graph(
      Resources room, CollectiveGroup group, DeviceStream stream, Runnable step) {
    DeviceGraph graph =
        group
            .device()
            .capture(
                stream,
                () -> {
                  for (int i = 0; i < CALLS; i++) {
                    step.run();
                  }
                });
    room.own(graph::close);
    return graph;
  }

  /** Of one step; ranks begin together. */
  private static double micros(CollectiveGroup group, DeviceStream stream, DeviceGraph graph) {
    group.barrier(stream);
    graph.launch(stream);
    try (DeviceEvent begin = group.device().createEvent();
        DeviceEvent end = group.device().createEvent()) {
      begin.record(stream);
      graph.launch(stream);
      end.record(stream);
      stream.synchronize();
      return end.elapsedSince(begin).toNanos() / NANOS_OF_MICRO / CALLS;
    }
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  private static float[] random(int rank, int count) {
    Random random = new Random(rank);
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = (float) random.nextGaussian();
    }
    return values;
  }
}
