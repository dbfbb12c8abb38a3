package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.AllReduceFusion;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.bench.NcclLibrary;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.engine.cuda.driver.Nccl;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** NCCL's sums, and what a fusion does with them, are those of a group. */
final class NcclSumsTest {
  private static final int RANKS = 2;
  private static final int ROWS = 3;
  private static final int HIDDEN = 1024;

  private record Results(List<Float> sums, List<Float> residual, List<Float> scaled) {}

  // Sums of small integers are exact in every type, in whatever order they are made.
  @Tag("gpu")
  @ParameterizedTest
  @EnumSource(
      value = DataType.class,
      names = {"BFLOAT16", "FLOAT16", "FLOAT32"})
  void areTheSumsOfAGroupAlsoInACapturedGraph(DataType type) throws Exception {
    assumeTrue(Devices.unavailabilityCause(Backend.CUDA) == null, "there is no GPU");
    assumeTrue(Devices.count(Backend.CUDA) >= RANKS, "NCCL needs a GPU for each of 2 ranks");
    String library = NcclLibrary.find();
    GroupConfig config = GroupConfig.builder().backend(Backend.CUDA).build();
    List<List<Results>> ranks =
        RankThreads.run(
            RANKS,
            config,
            rank -> rank,
            group -> {
              GroupTicket ticket = Groups.createTicket("alone", 1, config, "127.0.0.1");
              try (CollectiveGroup alone = Groups.join(ticket, 0, group.device().ordinal());
                  NcclSums nccl = NcclSums.connect(library, group, alone)) {
                return List.of(
                    results(group, PartialSums.of(group), type), results(group, nccl, type));
              }
            });
    for (List<Results> rank : ranks) {
      assertThat(rank.get(1)).isEqualTo(rank.get(0));
      assertThat(rank.get(0).sums().subList(0, 3)).containsExactly(1f, 4f, 7f);
    }
  }

  private static Results results(CollectiveGroup group, PartialSums sums, DataType type) {
    Device device = group.device();
    long count = (long) ROWS * HIDDEN;
    try (DeviceStream stream = device.createStream();
        DeviceBuffer plain = device.allocate(type, count);
        DeviceBuffer fused = device.allocate(type, count);
        DeviceBuffer residual = device.allocate(type, count);
        DeviceBuffer gamma = device.allocate(type, HIDDEN);
        DeviceBuffer scaled = device.allocate(type, count);
        DeviceBuffer squares =
            device.allocate(DataType.FLOAT32, AllReduceFusion.squaresCount(type, ROWS, HIDDEN))) {
      float[] mine = new float[(int) count];
      for (int i = 0; i < count; i++) {
        mine[i] = i % 8 + group.rank() * (i % 8 + 1);
      }
      plain.copyFrom(mine);
      fused.copyFrom(mine);
      residual.copyFrom(new float[(int) count]);
      gamma.copyFrom(filled(HIDDEN, 2));
      AllReduceFusion fusion =
          AllReduceFusion.residualRmsNormFold(residual, residual, gamma, scaled, squares);
      try (DeviceGraph graph =
          device.capture(
              stream,
              () -> {
                sums.allReduce(plain, stream);
                sums.allReduce(fused, fusion, stream);
              })) {
        graph.launch(stream);
        stream.synchronize();
      }
      return new Results(floats(plain), floats(residual), floats(scaled));
    }
  }

  private static float[] filled(int count, float value) {
    float[] values = new float[count];
    Arrays.fill(values, value);
    return values;
  }

  private static List<Float> floats(DeviceBuffer buffer) {
    float[] values = new float[(int) buffer.count()];
    buffer.copyTo(values);
    return IntStream.range(0, values.length).mapToObj(i -> values[i]).toList();
  }

  @Test
  void aLibraryThatIsNotThereOrIsNoNcclIsOneSentence() {
    assertThatThrownBy(() -> Nccl.open("/nowhere/libnccl.so.2"))
        .isInstanceOf(ModelException.class)
        .hasMessageStartingWith("NCCL cannot be opened: ")
        .hasMessageContaining("/nowhere/libnccl.so.2");
    assertThatThrownBy(() -> Nccl.open("libm.so.6").uniqueId())
        .isInstanceOf(ModelException.class)
        .hasMessage("libm.so.6 is no NCCL that can be used here: it has no ncclGetUniqueId");
  }
}
