package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.AllReduceFusion.Form;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every form of a fused all-reduce gives each rank the bits of a reference in Java. */
@Tag("contract")
class FusedAllReduceTest {
  private static final float EPS = 1e-5f;
  private static final DataType[] TYPES = {DataType.BFLOAT16, DataType.FLOAT16, DataType.FLOAT32};

  /** Rows and their length: of one packet, of no whole parts, and the longest. */
  private static final int[][] SHAPES = {{0, 64}, {1, 8}, {5, 8}, {3, 72}, {2, 1000}, {3, 16_384}};

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void everyFormGivesTheBitsOfTheReference(int worldSize) {
    try (Members members = Members.join("fused", worldSize, Members.config().build())) {
      checkAllForms(members, Algorithm.AUTO, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT);
    }
  }

  @Test
  @Tag("host") // groups on GPUs need all of their ranks in one node for it
  void theNodesOfAGroupDoNotMatterOnTheHost() {
    GroupConfig config = Members.config().gpusPerNode(2).build();
    try (Members members = Members.join("fused", 4, config)) {
      checkAllForms(members, Algorithm.AUTO, Algorithm.HIERARCHICAL);
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"ONE_SHOT", "TWO_SHOT"})
  void rowsThatAreMoreThanARingHoldsTakeSeveralLaunches(Algorithm algorithm) {
    // 512 KiB, in rings that hold two rows of both ranks and in those of most groups.
    int few = launchesOf(algorithm, Members.config().build());
    int many = launchesOf(algorithm, Members.config().ringBytes(64 << 10).build());
    assertThat(many).isGreaterThan(1).isGreaterThan(few);
    if (!TestBackend.isCuda()) {
      assertThat(many).isEqualTo(algorithm == Algorithm.ONE_SHOT ? 16 : 8);
    }
  }

  private static int launchesOf(Algorithm algorithm, GroupConfig config) {
    AtomicInteger launches = new AtomicInteger();
    try (Members members = Members.join("fused", 2, config)) {
      members.onAll(
          group -> {
            Case rows = new Case(group, Form.RMS_NORM, DataType.FLOAT32, 32, 4096);
            rows.check(algorithm, false);
            if (group.rank() == 0) {
              launches.set(launchesOf(group.health().ranks().get(0).lastCall().toString()));
            }
          });
    }
    return launches.get();
  }

  private static int launchesOf(String call) {
    Matcher several = Pattern.compile(", (\\d+) launches\\)").matcher(call);
    return several.find() ? Integer.parseInt(several.group(1)) : 1;
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3})
  void eachRankAddsItsOwnResidualAndWeight(int worldSize) {
    try (Members members = Members.join("own", worldSize, Members.config().build())) {
      members.onAll(
          group -> {
            for (DataType type : TYPES) {
              for (Form form : Form.values()) {
                for (Algorithm algorithm : List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
                  new Case(group, form, type, 3, 1000, 1 + group.rank()).check(algorithm, true);
                }
              }
            }
          });
    }
  }

  @Test
  void theTwoZerosAreOneEps() {
    try (Members members = Members.join("zeros", 2, Members.config().build())) {
      members.onAll(
          group -> {
            try (DeviceBuffer in = filled(group, DataType.FLOAT32, new float[64]);
                DeviceBuffer state =
                    filled(group, DataType.FLOAT32, values(DataType.FLOAT32, 1, 64));
                DeviceBuffer row = filled(group, DataType.FLOAT32, new float[64])) {
              float eps = group.rank() == 1 ? -0f : 0f;
              group.allReduce(in, AllReduceFusion.residualRmsNorm(state, state, row, eps, in));
              Members.complete(group);
            }
          });
    }
  }

  private static void checkAllForms(Members members, Algorithm... algorithms) {
    members.onAll(
        group -> {
          for (DataType type : TYPES) {
            for (Form form : Form.values()) {
              for (int[] shape : SHAPES) {
                Case rows = new Case(group, form, type, shape[0], shape[1]);
                for (Algorithm algorithm : algorithms) {
                  rows.check(algorithm, false);
                  rows.check(algorithm, true);
                }
              }
            }
          }
        });
  }

  /** The arguments of calls, in which ranks differ in the input at least, and what they give. */
  private static final class Case {
    private final CollectiveGroup group;
    private final Form form;
    private final DataType type;
    private final int rows;
    private final int hidden;
    private final float[] input;
    private final float[] residual;
    private final float[] weight;
    private final FusedReference expected;

    Case(CollectiveGroup group, Form form, DataType type, int rows, int hidden) {
      this(group, form, type, rows, hidden, 0);
    }

    /**
     * @param variant which residual and weight to take
     */
    Case(CollectiveGroup group, Form form, DataType type, int rows, int hidden, int variant) {
      this.group = group;
      this.form = form;
      this.type = type;
      this.rows = rows;
      this.hidden = hidden;
      int count = rows * hidden;
      int worldSize = group.worldSize();
      int ofNode = group.config().gpusPerNode();
      float[][] inputs = new float[worldSize][];
      for (int rank = 0; rank < worldSize; rank++) {
        inputs[rank] = values(type, rank, count);
      }
      input = inputs[group.rank()];
      residual = values(type, 100 + 2 * variant, count);
      weight = values(type, 101 + 2 * variant, hidden);
      float[] sums = FusedReference.sum(type, ofNode == 0 ? worldSize : ofNode, inputs);
      expected = new FusedReference(form, type, sums, residual, weight, EPS);
    }

    /**
     * Calls it with buffers of their own, and in place.
     *
     * @param crossed whether the new residual and the output swap places when in place
     */
    void check(Algorithm algorithm, boolean crossed) {
      String what =
          String.format(Locale.ROOT, "%s of %s[%d x %d], %s", form, type, rows, hidden, algorithm);
      long parts = AllReduceFusion.squaresCount(type, rows, hidden);
      try (DeviceBuffer in = filled(group, type, input);
          DeviceBuffer addend = filled(group, type, residual);
          DeviceBuffer row = filled(group, type, weight);
          DeviceBuffer sum = filled(group, type, new float[input.length]);
          DeviceBuffer out = filled(group, type, new float[input.length]);
          DeviceBuffer squares = filled(group, DataType.FLOAT32, new float[(int) parts])) {
        call(in, addend, sum, row, out, squares, algorithm);
        expect(what, sum, out, squares);
        assertThat(contents(in)).as(what + ", its input").isEqualTo(input);
        assertThat(contents(addend)).as(what + ", its residual").isEqualTo(residual);

        DeviceBuffer newSum = crossed ? in : addend;
        DeviceBuffer newOut = crossed ? addend : in;
        call(in, addend, newSum, row, newOut, squares, algorithm);
        expect(what + " in place", newSum, newOut, squares);
      }
    }

    private void call(
        DeviceBuffer in,
        DeviceBuffer addend,
        DeviceBuffer sum,
        DeviceBuffer row,
        DeviceBuffer out,
        DeviceBuffer squares,
        Algorithm algorithm) {
      AllReduceFusion fusion =
          switch (form) {
            case RESIDUAL -> AllReduceFusion.residual(addend, out);
            case BIAS -> AllReduceFusion.bias(row, out);
            case RMS_NORM -> AllReduceFusion.residualRmsNorm(addend, sum, row, EPS, out);
            case RMS_FOLD -> AllReduceFusion.residualRmsNormFold(addend, sum, row, out, squares);
          };
      group.allReduce(in, fusion, algorithm, group.stream());
    }

    private void expect(String what, DeviceBuffer sum, DeviceBuffer out, DeviceBuffer squares) {
      assertThat(contents(out)).as(what).isEqualTo(expected.output);
      if (form == Form.RMS_NORM || form == Form.RMS_FOLD) {
        assertThat(contents(sum)).as(what + ", the residual").isEqualTo(expected.residualOut);
      }
      if (form == Form.RMS_FOLD) {
        assertThat(contents(squares)).as(what + ", the squares").isEqualTo(expected.squares);
      }
    }
  }

  /** As the type holds them, so that sums and products of them are rounded. */
  private static float[] values(DataType type, int seed, int count) {
    Random random = new Random(seed);
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = FusedReference.stored(type, (float) random.nextGaussian());
    }
    return values;
  }

  private static DeviceBuffer filled(CollectiveGroup group, DataType type, float[] values) {
    DeviceBuffer buffer = group.device().allocate(type, values.length);
    buffer.copyFrom(values);
    return buffer;
  }

  private static float[] contents(DeviceBuffer buffer) {
    float[] values = new float[(int) buffer.count()];
    buffer.copyTo(values);
    return values;
  }

  @Test
  void aGraphOfTwoLayersIsReplayedOnNewValues() {
    try (Members members = Members.join("layers", 2, Members.config().build())) {
      members.onAll(FusedAllReduceTest::replayLayers);
    }
  }

  private static void replayLayers(CollectiveGroup group) {
    DataType type = DataType.BFLOAT16;
    int rows = 2;
    int hidden = 64;
    int count = rows * hidden;
    Device device = group.device();
    float[] weight = values(type, 101, hidden);
    try (DeviceStream stream = device.createStream();
        DeviceBuffer partial = device.allocate(type, count);
        DeviceBuffer state = device.allocate(type, count);
        DeviceBuffer normed = device.allocate(type, count);
        DeviceBuffer row = filled(group, type, weight)) {
      AllReduceFusion layer = AllReduceFusion.residualRmsNorm(state, state, row, EPS, normed);
      try (DeviceGraph graph =
          device.capture(
              stream,
              () -> {
                group.allReduce(partial, layer, stream);
                group.allReduce(normed, layer, Algorithm.ONE_SHOT, stream);
              })) {
        for (int round = 0; round < 3; round++) {
          float[] first = values(type, 10 * round, count);
          float[] second = values(type, 10 * round + 1, count);
          float[] residual = values(type, 10 * round + 2, count);
          partial.copyFrom(group.rank() == 0 ? first : second);
          state.copyFrom(residual);
          graph.launch(stream);
          float[] sums = FusedReference.sum(type, 2, new float[][] {first, second});
          FusedReference one = new FusedReference(Form.RMS_NORM, type, sums, residual, weight, EPS);
          sums = FusedReference.sum(type, 2, new float[][] {one.output, one.output});
          FusedReference two =
              new FusedReference(Form.RMS_NORM, type, sums, one.residualOut, weight, EPS);
          assertThat(contents(state)).as("round %d", round).isEqualTo(two.residualOut);
          assertThat(contents(normed)).as("round %d", round).isEqualTo(two.output);
        }
      }
    }
  }

  @Test
  void theHealthOfAGroupNamesTheFormAndTheRows() {
    try (Members members = Members.join("told", 2, Members.config().build())) {
      members.onAll(FusedAllReduceTest::callEachForm);
    }
  }

  private static void callEachForm(CollectiveGroup group) {
    DataType type = DataType.BFLOAT16;
    try (DeviceBuffer in = filled(group, type, new float[128]);
        DeviceBuffer state = filled(group, type, new float[128]);
        DeviceBuffer row = filled(group, type, new float[64]);
        DeviceBuffer squares = filled(group, DataType.FLOAT32, new float[2])) {
      told("#1 bfloat16[1 x 128] SUM + residual", group, in, AllReduceFusion.residual(state, in));
      told("#2 bfloat16[2 x 64] SUM + bias", group, in, AllReduceFusion.bias(row, in));
      told(
          "#3 bfloat16[2 x 64] SUM + residual + RMS norm",
          group,
          in,
          AllReduceFusion.residualRmsNorm(state, state, row, EPS, in));
      told(
          "#4 bfloat16[2 x 64] SUM + residual + RMS fold",
          group,
          in,
          AllReduceFusion.residualRmsNormFold(state, state, row, in, squares));
    }
  }

  private static void told(
      String expected, CollectiveGroup group, DeviceBuffer in, AllReduceFusion fusion) {
    group.allReduce(in, fusion, Algorithm.ONE_SHOT, group.stream());
    Members.complete(group);
    assertThat(group.health().ranks().get(group.rank()).lastCall().toString())
        .startsWith("allReduce " + expected + " (one-shot), ");
  }

  @ParameterizedTest
  @ValueSource(strings = {"eps", "form", "hidden"})
  void aRankWhoseCallDiffersIsAMismatchOnAll(String difference) throws Exception {
    try (Members members = Members.join("differ", 3, Members.config().build())) {
      List<Future<?>> calls = new ArrayList<>();
      for (int rank = 0; rank < 3; rank++) {
        CollectiveGroup group = members.rank(rank);
        String what = rank == 1 ? difference : "nothing";
        calls.add(
            members.start(
                () -> {
                  callWithDifferent(what, group);
                  return null;
                }));
      }
      for (Future<?> call : calls) {
        assertThat(Members.failureOf(call))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining("allReduce #1 float32[4 x 64] SUM + residual + RMS norm")
            .hasMessageContaining(difference.equals("eps") ? "which differ in eps" : "rank 1 ");
      }
    }
  }

  private static void callWithDifferent(String what, CollectiveGroup group) {
    try (DeviceBuffer in = filled(group, DataType.FLOAT32, new float[256]);
        DeviceBuffer state = filled(group, DataType.FLOAT32, new float[256]);
        DeviceBuffer row = filled(group, DataType.FLOAT32, new float[64])) {
      group.allReduce(
          in,
          switch (what) {
            case "eps" -> AllReduceFusion.residualRmsNorm(state, state, row, 1e-6f, in);
            case "form" -> AllReduceFusion.bias(row, in);
            case "hidden" ->
                AllReduceFusion.residualRmsNorm(state, state, row.slice(0, 32), EPS, in);
            default -> AllReduceFusion.residualRmsNorm(state, state, row, EPS, in);
          });
      Members.complete(group);
    }
  }

  @Test
  void aCallOnAClosedGroupIsRefused() {
    try (Members members = Members.join("over", 1, Members.config().build());
        DeviceBuffer in = filled(members.rank(0), DataType.FLOAT32, new float[8])) {
      CollectiveGroup group = members.rank(0);
      group.close();
      assertThatThrownBy(() -> group.allReduce(in, AllReduceFusion.residual(in, in)))
          .isExactlyInstanceOf(IllegalStateException.class)
          .hasMessageContaining("closed");
    }
  }

  @Test
  @Tag("host") // what a GPU has recorded it launches without a look
  void aRecordedCallLooksAtItsBuffersAtEveryLaunch() {
    try (Members members = Members.join("stale", 1, Members.config().build())) {
      CollectiveGroup group = members.rank(0);
      DeviceBuffer weight = filled(group, DataType.FLOAT32, new float[8]);
      try (DeviceBuffer in = filled(group, DataType.FLOAT32, new float[8]);
          DeviceBuffer state = filled(group, DataType.FLOAT32, new float[8])) {
        AllReduceFusion fusion = AllReduceFusion.residualRmsNorm(state, state, weight, EPS, in);
        try (DeviceGraph graph =
            group.device().capture(group.stream(), () -> group.allReduce(in, fusion))) {
          graph.launch(group.stream());
          weight.close();
          assertThatThrownBy(() -> graph.launch(group.stream()))
              .isInstanceOf(IllegalStateException.class)
              .hasMessage("the buffer float32[8] is closed");
          group.barrier();
        }
      }
    }
  }
}
