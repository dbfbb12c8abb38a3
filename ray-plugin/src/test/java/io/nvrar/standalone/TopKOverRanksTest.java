package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.GroupMismatchException;
import io.nvrar.TopK;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A top-k gives every rank what sorting the whole rows gives. */
@Tag("contract")
@NullUnmarked
class TopKOverRanksTest {
  private static final int ROWS = 3;
  private static final int K = 5;

  /** Few values, so that there are ties; rank r has 10 + r columns of each row. */
  private static float valueAt(int row, int index, int turn) {
    return new Random(31L * row + 1009L * index + 7919L * turn).nextInt(7) - 3;
  }

  private static int columns(int rank) {
    return 10 + rank;
  }

  private static int firstIndex(int rank) {
    return IntStream.range(0, rank).map(TopKOverRanksTest::columns).sum();
  }

  private static float[] logits(int rank, int turn) {
    float[] logits = new float[ROWS * columns(rank)];
    for (int i = 0; i < logits.length; i++) {
      logits[i] = valueAt(i / columns(rank), firstIndex(rank) + i % columns(rank), turn);
    }
    return logits;
  }

  private static int[] expected(int worldSize, int k, int turn) {
    return IntStream.range(0, ROWS)
        .flatMap(
            row ->
                IntStream.range(0, firstIndex(worldSize))
                    .boxed()
                    .sorted(Comparator.comparingDouble(index -> -valueAt(row, (int) index, turn)))
                    .mapToInt(Integer::intValue)
                    .limit(k))
        .toArray();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void everyRankGetsTheGreatestOfTheWholeRows(int worldSize) {
    try (Members members = Members.join("top-k", worldSize, Members.config().build())) {
      members.onAll(
          group -> {
            Device device = group.device();
            for (DataType type : List.of(DataType.FLOAT32, DataType.BFLOAT16, DataType.FLOAT16)) {
              try (DeviceBuffer input = device.allocate(type, (long) ROWS * columns(group.rank()));
                  DeviceBuffer values = device.allocate(type, ROWS * K);
                  DeviceBuffer indices = device.allocate(DataType.INT32, ROWS * K)) {
                input.copyFrom(logits(group.rank(), 0));
                group.topK(
                    input,
                    TopK.of(K, columns(group.rank()), firstIndex(group.rank()), values, indices));
                Members.complete(group);
                int[] chosen = new int[ROWS * K];
                indices.copyTo(chosen);
                assertThat(chosen).isEqualTo(expected(worldSize, K, 0));
                float[] greatest = new float[ROWS * K];
                values.copyTo(greatest);
                for (int i = 0; i < greatest.length; i++) {
                  assertThat(greatest[i]).isEqualTo(valueAt(i / K, chosen[i], 0));
                }
              }
            }
            assertThat(group.health().ranks().get(group.rank()).lastCall().toString())
                .contains("allGather", "int64[3 x 5]");
          });
    }
  }

  @Test
  void aGraphOfAnArgMaxFindsThoseOfEveryReplay() {
    try (Members members = Members.join("argmax", 2, Members.config().build())) {
      members.onAll(TopKOverRanksTest::replay);
    }
  }

  private static void replay(CollectiveGroup group) {
    Device device = group.device();
    try (DeviceBuffer input =
            device.allocate(DataType.FLOAT32, (long) ROWS * columns(group.rank()));
        DeviceBuffer tokens = device.allocate(DataType.INT32, ROWS)) {
      TopK likeliest = TopK.argMax(columns(group.rank()), firstIndex(group.rank()), tokens);
      try (DeviceGraph graph = device.capture(group.stream(), () -> group.topK(input, likeliest))) {
        for (int turn = 0; turn < 5; turn++) {
          input.copyFrom(logits(group.rank(), turn));
          graph.launch(group.stream());
          Members.complete(group);
          int[] chosen = new int[ROWS];
          tokens.copyTo(chosen);
          assertThat(chosen).isEqualTo(expected(2, 1, turn));
        }
      }
    }
  }

  @Test
  void aRowWithoutANumberOrWithTooFewColumnsSaysSo() {
    try (Members members = Members.join("nan", 2, Members.config().build())) {
      members.onAll(
          group -> {
            Device device = group.device();
            try (DeviceBuffer input = device.allocate(DataType.FLOAT32, 2);
                DeviceBuffer values = device.allocate(DataType.FLOAT32, 6);
                DeviceBuffer indices = device.allocate(DataType.INT32, 6)) {
              input.copyFrom(new float[] {group.rank() == 0 ? 1 : Float.NaN, group.rank()});
              group.topK(input, TopK.of(3, 1, group.rank(), values, indices));
              Members.complete(group);
              int[] chosen = new int[6];
              indices.copyTo(chosen);
              assertThat(chosen).containsExactly(-1, -1, -1, 1, 0, -1);
              float[] greatest = new float[6];
              values.copyTo(greatest);
              float nan = Float.NaN;
              assertThat(greatest).containsExactly(nan, nan, nan, 1, 0, Float.NEGATIVE_INFINITY);
            }
          });
    }
  }

  @Test
  void ranksThatDifferInKAreAMismatch() throws Exception {
    try (Members members = Members.join("differ", 2, Members.config().build())) {
      List<Future<?>> calls = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        CollectiveGroup group = members.rank(rank);
        int k = 2 + rank;
        calls.add(
            members.start(
                () -> {
                  findSome(group, k);
                  return null;
                }));
      }
      for (Future<?> call : calls) {
        assertThat(Members.failureOf(call))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining("int64[3 x 2]")
            .hasMessageContaining("int64[2 x 3]");
      }
    }
  }

  private static void findSome(CollectiveGroup group, int k) {
    Device device = group.device();
    try (DeviceBuffer input = device.allocate(DataType.FLOAT32, 12);
        DeviceBuffer values = device.allocate(DataType.FLOAT32, 6);
        DeviceBuffer indices = device.allocate(DataType.INT32, 6)) {
      group.topK(input, TopK.of(k, 2L * k, 0, values, indices));
      Members.complete(group);
    }
  }

  @Test
  void moreCandidatesThanAnAllGatherCarriesAreFoundInTurns() {
    int rows = 10_000;
    try (Members members = Members.join("many", 2, Members.config().build())) {
      members.onAll(
          group -> {
            Device device = group.device();
            try (DeviceBuffer input = device.allocate(DataType.FLOAT32, rows);
                DeviceBuffer indices = device.allocate(DataType.INT32, rows)) {
              float[] values = new float[rows];
              for (int row = 0; row < rows; row++) {
                values[row] = (row + group.rank()) % 2;
              }
              input.copyFrom(values);
              group.topK(input, TopK.argMax(1, group.rank(), indices));
              Members.complete(group);
              int[] chosen = new int[rows];
              indices.copyTo(chosen);
              assertThat(chosen)
                  .isEqualTo(IntStream.range(0, rows).map(row -> 1 - row % 2).toArray());
            }
          });
    }
  }

  @Test
  void mistakesAreRefusedAndCostNothing() {
    try (Members members = Members.join("mistakes", 2, Members.config().build())) {
      members.onAll(TopKOverRanksTest::makeMistakes);
    }
  }

  private static void makeMistakes(CollectiveGroup group) {
    Device device = group.device();
    try (DeviceBuffer room = device.allocate(DataType.FLOAT32, 64);
        DeviceBuffer numbers = device.allocate(DataType.INT32, 64);
        DeviceBuffer halves = device.allocate(DataType.FLOAT16, 4)) {
      DeviceBuffer input = room.slice(0, 32);
      DeviceBuffer indices = numbers.slice(0, 4);
      refused(() -> TopK.argMax(8, 0, null), "indices is null, a top-k needs a DeviceBuffer");
      refused(
          () -> TopK.of(2, 8, 0, null, indices), "values is null, a top-k needs a DeviceBuffer");
      refused(() -> TopK.of(0, 8, 0, room, indices), "k is 0, must be 1 to 1024");
      refused(() -> TopK.of(1025, 8, 0, room, indices), "k is 1025, must be 1 to 1024");
      refused(
          () -> TopK.argMax(8, -1, indices),
          "there are 8 columns with indices from -1 on, a top-k has indices from 0 to 2147483647");
      refused(
          () -> TopK.argMax(8, (1L << 31) - 7, indices),
          "there are 8 columns with indices from 2147483641 on, a top-k has indices from 0 to"
              + " 2147483647");
      refused(() -> TopK.argMax(8, 0, room), "indices holds FLOAT32, a top-k stores INT32");
      refused(
          () -> TopK.of(3, 8, 0, room, indices),
          "indices holds 4 elements, which are no rows of 3");
      refused(() -> TopK.of(2, 8, 0, room, indices), "values holds 64 elements, indices holds 4");
      refused(
          () -> TopK.of(2, 8, 0, indices, indices),
          "values holds INT32, a top-k takes FLOAT16, BFLOAT16 and FLOAT32");
      TopK likeliest = TopK.argMax(8, 0, indices);
      refused(() -> group.topK(input, null), "topK is null, topK needs a TopK");
      refused(
          () -> group.topK(numbers, likeliest),
          "input holds INT32, a top-k takes FLOAT16, BFLOAT16 and FLOAT32");
      refused(
          () -> group.topK(input, TopK.of(1, 8, 0, halves, indices)),
          "input holds FLOAT32, values holds FLOAT16");
      refused(
          () -> group.topK(room.slice(0, 16), likeliest),
          "input holds 16 elements, 4 rows of 8 columns need 32");
      assertThatThrownBy(() -> group.topK(input, TopK.of(1, 8, 0, room.slice(30, 4), indices)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("overlap");
      DeviceBuffer closed = device.allocate(DataType.FLOAT32, 4);
      TopK ofClosed = TopK.of(1, 8, 0, closed, indices);
      closed.close();
      assertThatThrownBy(() -> group.topK(input, ofClosed))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("closed");
      assertThatThrownBy(() -> group.batch(() -> group.topK(input, likeliest)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("topK was called inside a batch");
      group.topK(room.slice(0, 0), TopK.argMax(8, 0, numbers.slice(0, 0)));
      group.topK(input, likeliest);
      Members.complete(group);
    }
  }

  private static void refused(ThrowingCallable call, String sentence) {
    assertThatThrownBy(call)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }
}
