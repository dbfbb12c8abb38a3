package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every collective with every type, operation and algorithm arrives at the function it names with
 * the arguments in the right places, in place and apart. The values are small, so that every order
 * of operands gives the same.
 */
@Tag("contract")
class CollectivesTest {
  private static final int[] COUNTS = {0, 1, 17, 1500};

  /** Compared results of one rank each. */
  private static final AtomicInteger CASES = new AtomicInteger();

  @AfterAll
  static void sayHowMany() {
    System.out.println("CollectivesTest: " + CASES + " results compared");
    assertThat(CASES.get()).isGreaterThan(10_000);
  }

  /** World size and GPUs per node: one node, equal nodes, and nodes that differ. */
  static Stream<Arguments> groups() {
    return Stream.of(
        Arguments.of(1, 0),
        Arguments.of(2, 0),
        Arguments.of(3, 0),
        Arguments.of(4, 0),
        Arguments.of(4, 2),
        Arguments.of(3, 2));
  }

  private static Members join(int worldSize, int gpusPerNode) {
    GroupConfig config = Members.config().gpusPerNode(gpusPerNode).build();
    return Members.join("collectives", worldSize, config);
  }

  private static double value(int rank, int i) {
    // Products of four stay within what the 16-bit floats hold exactly.
    return 1 + (3 * rank + 5 * i) % 4;
  }

  private static double[] values(int rank, int from, int count) {
    double[] values = new double[count];
    for (int i = 0; i < count; i++) {
      values[i] = value(rank, from + i);
    }
    return values;
  }

  private static double[] reduced(DataType type, ReduceOp op, int worldSize, int from, int count) {
    double[] result = new double[count];
    double[] ofRanks = new double[worldSize];
    for (int i = 0; i < count; i++) {
      for (int rank = 0; rank < worldSize; rank++) {
        ofRanks[rank] = value(rank, from + i);
      }
      result[i] = Elements.reduce(type, op, ofRanks);
    }
    return result;
  }

  private static List<ReduceOp> opsOf(DataType type) {
    return Arrays.stream(ReduceOp.values())
        .filter(op -> type.isFloat() || op != ReduceOp.AVG)
        .toList();
  }

  /** A buffer that holds a rank's values, which the block of the caller closes. */
  private static DeviceBuffer buffer(CollectiveGroup group, DataType type, double... values) {
    DeviceBuffer buffer = group.device().allocate(type, values.length);
    Elements.write(buffer, values);
    return buffer;
  }

  private static void expect(DeviceBuffer buffer, double[] expected, String what) {
    CASES.incrementAndGet();
    assertThat(Elements.read(buffer)).as(what).isEqualTo(expected);
  }

  @ParameterizedTest
  @MethodSource("groups")
  void everyReductionOfEveryTypeGivesEachRankItsResult(int worldSize, int gpusPerNode) {
    List<Algorithm> algorithms = new ArrayList<>(List.of(Algorithm.values()));
    if (gpusPerNode == 0) {
      algorithms.remove(Algorithm.HIERARCHICAL);
    }
    try (Members members = join(worldSize, gpusPerNode)) {
      members.onAll(
          group -> {
            for (DataType type : DataType.values()) {
              for (ReduceOp op : opsOf(type)) {
                for (int count : COUNTS) {
                  for (Algorithm algorithm : algorithms) {
                    allReduce(group, type, op, count, algorithm);
                  }
                  reduce(group, type, op, count);
                  reduceScatter(group, type, op, count);
                }
              }
            }
          });
    }
  }

  private static void allReduce(
      CollectiveGroup group, DataType type, ReduceOp op, int count, Algorithm algorithm) {
    String what =
        String.format(Locale.ROOT, "allReduce of %d %s by %s, %s", count, type, op, algorithm);
    double[] own = values(group.rank(), 0, count);
    double[] expected = reduced(type, op, group.worldSize(), 0, count);
    try (DeviceBuffer send = buffer(group, type, own);
        DeviceBuffer recv = buffer(group, type, new double[count])) {
      group.allReduce(send, recv, op, algorithm, group.stream());
      expect(recv, expected, what);
      expect(send, own, what + ", its input");
      group.allReduce(send, send, op, algorithm, group.stream());
      expect(send, expected, what + " in place");
    }
  }

  private static void reduce(CollectiveGroup group, DataType type, ReduceOp op, int count) {
    for (int root = 0; root < group.worldSize(); root++) {
      boolean isRoot = group.rank() == root;
      String what =
          String.format(Locale.ROOT, "reduce of %d %s by %s to %d", count, type, op, root);
      double[] own = values(group.rank(), 0, count);
      double[] expected = reduced(type, op, group.worldSize(), 0, count);
      try (DeviceBuffer send = buffer(group, type, own);
          DeviceBuffer recv = buffer(group, type, new double[count])) {
        group.reduce(send, isRoot ? recv : null, op, root, group.stream());
        expect(recv, isRoot ? expected : new double[count], what);
        group.reduce(send, op, root);
        expect(send, isRoot ? expected : own, what + " in place");
      }
    }
  }

  private static void reduceScatter(CollectiveGroup group, DataType type, ReduceOp op, int count) {
    String what = String.format(Locale.ROOT, "reduceScatter of %d %s by %s", count, type, op);
    int worldSize = group.worldSize();
    int first = group.rank() * count;
    double[] own = values(group.rank(), 0, worldSize * count);
    double[] expected = reduced(type, op, worldSize, first, count);
    try (DeviceBuffer send = buffer(group, type, own);
        DeviceBuffer recv = buffer(group, type, new double[count])) {
      group.reduceScatter(send, recv, op);
      expect(recv, expected, what);
      expect(send, own, what + ", its input");
      DeviceBuffer part = send.slice(first, count);
      group.reduceScatter(send, part, op);
      expect(part, expected, what + " in place");
    }
  }

  @ParameterizedTest
  @MethodSource("groups")
  void everyMoveOfEveryTypeGivesEachRankTheValuesOfTheOthers(int worldSize, int gpusPerNode) {
    try (Members members = join(worldSize, gpusPerNode)) {
      members.onAll(
          group -> {
            for (DataType type : DataType.values()) {
              for (int count : COUNTS) {
                allGather(group, type, count);
                allToAll(group, type, count);
                broadcast(group, type, count);
              }
            }
            group.barrier();
          });
    }
  }

  private static void allGather(CollectiveGroup group, DataType type, int count) {
    String what = String.format(Locale.ROOT, "allGather of %d %s", count, type);
    int worldSize = group.worldSize();
    double[] expected = new double[worldSize * count];
    for (int rank = 0; rank < worldSize; rank++) {
      System.arraycopy(values(rank, 0, count), 0, expected, rank * count, count);
    }
    try (DeviceBuffer send = buffer(group, type, values(group.rank(), 0, count));
        DeviceBuffer recv = buffer(group, type, new double[worldSize * count])) {
      group.allGather(send, recv);
      expect(recv, expected, what);
      Elements.write(recv, new double[worldSize * count]);
      DeviceBuffer part = recv.slice((long) group.rank() * count, count);
      Elements.write(part, values(group.rank(), 0, count));
      group.allGather(part, recv);
      expect(recv, expected, what + " in place");
    }
  }

  private static void allToAll(CollectiveGroup group, DataType type, int count) {
    String what = String.format(Locale.ROOT, "allToAll of %d %s", count, type);
    int worldSize = group.worldSize();
    double[] expected = new double[worldSize * count];
    for (int rank = 0; rank < worldSize; rank++) {
      double[] theirs = values(rank, group.rank() * count, count);
      System.arraycopy(theirs, 0, expected, rank * count, count);
    }
    try (DeviceBuffer send = buffer(group, type, values(group.rank(), 0, worldSize * count));
        DeviceBuffer recv = buffer(group, type, new double[worldSize * count])) {
      group.allToAll(send, recv);
      expect(recv, expected, what);
      group.allToAll(send);
      expect(send, expected, what + " in place");
    }
  }

  private static void broadcast(CollectiveGroup group, DataType type, int count) {
    for (int root = 0; root < group.worldSize(); root++) {
      String what = String.format(Locale.ROOT, "broadcast of %d %s from %d", count, type, root);
      double[] own = values(group.rank(), 0, count);
      try (DeviceBuffer send = buffer(group, type, own);
          DeviceBuffer recv = buffer(group, type, new double[count])) {
        group.broadcast(send, recv, root, group.stream());
        expect(recv, values(root, 0, count), what);
        expect(send, own, what + ", its input");
        group.broadcast(send, root);
        expect(send, values(root, 0, count), what + " in place");
      }
    }
  }
}
