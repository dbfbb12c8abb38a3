package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.ReduceOp;
import io.nvrar.TuningTable;
import io.nvrar.internal.device.host.HostDevice;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** That each method calls the function it names, with the arguments in the right places. */
class NativeCommunicatorTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int[] COUNTS = {0, 1, 2, 7, 1024, 50_001};

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void allReduceGivesEveryRankTheSumAndTheMaximum(int worldSize) throws Exception {
    try (Ranks ranks = new Ranks(worldSize, TIMEOUT)) {
      for (int count : COUNTS) {
        float[] sum = new float[count];
        float[] max = new float[count];
        for (int i = 0; i < count; i++) {
          for (int rank = 0; rank < worldSize; rank++) {
            sum[i] += value(rank, i);
            max[i] = Math.max(max[i], value(rank, i));
          }
        }
        ranks.all(
            (member, rank) -> {
              DeviceBuffer send = ranks.buffer(DataType.FLOAT32, values(rank, count));
              DeviceBuffer recv = ranks.buffer(DataType.FLOAT32, new float[count]);
              member.run(new Call().allReduce(send, recv, ReduceOp.SUM, Algorithm.AUTO), 0);
              assertThat(contents(recv)).isEqualTo(sum);
              assertThat(contents(send)).isEqualTo(values(rank, count));
              Ranks.allReduce(member, send, ReduceOp.MAX, Algorithm.AUTO);
              assertThat(contents(send)).isEqualTo(max);
            });
      }
    }
  }

  @Test
  void everyDataTypeIsReducedAsItself() throws Exception {
    try (Ranks ranks = new Ranks(3, TIMEOUT)) {
      for (DataType type : new DataType[] {DataType.FLOAT16, DataType.BFLOAT16}) {
        ranks.all(
            (member, rank) -> {
              DeviceBuffer buffer = ranks.buffer(type, 1 + rank, -2, 0.5f);
              Ranks.allReduce(member, buffer, ReduceOp.SUM, Algorithm.AUTO);
              assertThat(contents(buffer)).containsExactly(6, -6, 1.5f);
            });
      }
      ranks.all(
          (member, rank) -> {
            int[] result = new int[2];
            try (DeviceBuffer buffer = HostDevice.instance().allocate(DataType.INT32, 2)) {
              buffer.copyFrom(new int[] {Integer.MAX_VALUE, 10 * rank});
              Ranks.allReduce(member, buffer, ReduceOp.SUM, Algorithm.AUTO);
              buffer.copyTo(result);
            }
            assertThat(result).containsExactly((int) (3L * Integer.MAX_VALUE), 30);
          });
    }
  }

  /** Sums that round, 1 + 2^-24 twice and its negative, and one of denormals. */
  @ParameterizedTest
  @ValueSource(ints = {FloatControl.UP, FloatControl.DOWN, FloatControl.NO_DENORMALS})
  void aRankWhoseThreadRoundsOtherwiseHasTheBitsOfTheOthers(int foreign) throws Exception {
    float[] first = {1, -1, Float.MIN_VALUE};
    float[] other = {0x1p-24f, -0x1p-24f, Float.MIN_VALUE};
    try (Ranks ranks = new Ranks(3, TIMEOUT)) {
      for (Algorithm algorithm : List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
        List<float[]> sums =
            ranks.ask(
                (member, rank) -> {
                  int word = FloatControl.DEFAULT | (rank == 1 ? foreign : 0);
                  DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, rank == 0 ? first : other);
                  FloatControl.set(word);
                  try {
                    Ranks.allReduce(member, buffer, ReduceOp.SUM, algorithm);
                    assertThat(FloatControl.get()).isEqualTo(word);
                  } finally {
                    FloatControl.set(FloatControl.DEFAULT);
                  }
                  return contents(buffer);
                });
        assertThat(sums).containsOnly(new float[] {1, -1, 3 * Float.MIN_VALUE});
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void allGatherPutsEveryRanksValuesInRankOrder(int worldSize) throws Exception {
    try (Ranks ranks = new Ranks(worldSize, TIMEOUT)) {
      for (int count : COUNTS) {
        float[] expected = new float[worldSize * count];
        for (int rank = 0; rank < worldSize; rank++) {
          System.arraycopy(values(rank, count), 0, expected, rank * count, count);
        }
        ranks.all(
            (member, rank) -> {
              DeviceBuffer send = ranks.buffer(DataType.FLOAT32, values(rank, count));
              DeviceBuffer recv = ranks.buffer(DataType.FLOAT32, new float[worldSize * count]);
              member.run(new Call().allGather(send, recv), 0);
              assertThat(contents(recv)).isEqualTo(expected);
            });
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void broadcastGivesEveryRankTheRootsValuesWhoeverIsRoot(int worldSize) throws Exception {
    try (Ranks ranks = new Ranks(worldSize, TIMEOUT)) {
      for (int root = 0; root < worldSize; root++) {
        int from = root;
        for (int count : COUNTS) {
          ranks.all(
              (member, rank) -> {
                DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, values(rank, count));
                member.run(new Call().broadcast(buffer, buffer, from), 0);
                assertThat(contents(buffer)).isEqualTo(values(from, count));
              });
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void noRankLeavesABarrierBeforeTheLastHasEntered(int worldSize) throws Exception {
    AtomicInteger entered = new AtomicInteger();
    try (Ranks ranks = new Ranks(worldSize, TIMEOUT)) {
      ranks.all(
          (member, rank) -> {
            for (int round = 1; round <= 50; round++) {
              entered.incrementAndGet();
              Ranks.barrier(member);
              assertThat(entered.get()).isGreaterThanOrEqualTo(round * worldSize);
              Ranks.barrier(member);
            }
          });
    }
  }

  @Test
  void theCallsOfEveryRankAreDescribedAsTheApiSpellsThem() throws Exception {
    List<String> descriptions =
        List.of(
            "allReduce #1 float32[3] SUM (one-shot)",
            "allReduce #2 bfloat16[5] MAX (two-shot)",
            "allGather #3 float16[2]",
            "broadcast #4 int32[7] from root 1",
            "barrier #5",
            "reduce #6 int64[3] PRODUCT to root 0",
            "reduceScatter #7 float64[2] AVG",
            "allToAll #8 uint8[4]");
    try (Ranks ranks = new Ranks(2, TIMEOUT)) {
      assertThat(ranks.member(0).call(1)).isEqualTo(CallRecord.NONE);
      assertThat(ranks.member(0).flightRecord(1)).isEmpty();
      for (int call = 0; call < descriptions.size(); call++) {
        int number = call;
        ranks.all((member, rank) -> call(ranks, member, number));
        for (int of = 0; of < 2; of++) {
          assertThat(ranks.member(1 - of).call(of))
              .returns(CallRecord.State.DONE, CallRecord::state)
              .returns(call + 1L, CallRecord::sequence)
              .returns(call + 1L, CallRecord::groupSequence)
              .returns(-1, CallRecord::peer)
              .returns(descriptions.get(call), CallRecord::description);
        }
      }
      for (int of = 0; of < 2; of++) {
        List<CallRecord> record = ranks.member(1 - of).flightRecord(of);
        assertThat(record).extracting(CallRecord::description).isEqualTo(descriptions);
        assertThat(record)
            .allSatisfy(
                call -> assertThat(call.endNanos()).isGreaterThanOrEqualTo(call.beginNanos()));
        assertThat(record.get(1).algorithm()).isEqualTo(Algorithm.TWO_SHOT.code());
      }
      ranks.all((member, rank) -> call(ranks, member, descriptions.size()));
      CallRecord large = ranks.member(0).call(1);
      assertThat(large.launches()).isGreaterThan(1);
      assertThat(large.description())
          .isEqualTo(
              "allReduce #9 int8[1000000] MIN (two-shot, " + large.launches() + " launches)");
    }
  }

  private static void call(Ranks ranks, NativeCommunicator member, int number) {
    Call call = new Call();
    switch (number) {
      case 0 -> sum(call, ranks.room(DataType.FLOAT32, 3), ReduceOp.SUM, Algorithm.ONE_SHOT);
      case 1 -> sum(call, ranks.room(DataType.BFLOAT16, 5), ReduceOp.MAX, Algorithm.TWO_SHOT);
      case 2 -> call.allGather(ranks.room(DataType.FLOAT16, 2), ranks.room(DataType.FLOAT16, 4));
      case 3 -> {
        DeviceBuffer buffer = ranks.room(DataType.INT32, 7);
        call.broadcast(buffer, buffer, 1);
      }
      case 4 -> call.barrier();
      case 5 -> {
        DeviceBuffer buffer = ranks.room(DataType.INT64, 3);
        call.reduce(buffer, buffer, ReduceOp.PRODUCT, 0);
      }
      case 6 ->
          call.reduceScatter(
              ranks.room(DataType.FLOAT64, 4), ranks.room(DataType.FLOAT64, 2), ReduceOp.AVG);
      case 7 -> call.allToAll(ranks.room(DataType.UINT8, 8), ranks.room(DataType.UINT8, 8));
      default -> sum(call, ranks.room(DataType.INT8, 1_000_000), ReduceOp.MIN, Algorithm.TWO_SHOT);
    }
    member.run(call, 0);
  }

  private static void sum(Call call, DeviceBuffer buffer, ReduceOp op, Algorithm algorithm) {
    call.allReduce(buffer, buffer, op, algorithm);
  }

  @Test
  void theFirstRuleThatMatchesChoosesTheAlgorithmAndTheCallsOwnChoiceComesBeforeIt()
      throws Exception {
    GroupConfig config =
        GroupConfig.builder()
            .timeout(TIMEOUT)
            .gpusPerNode(2)
            .tuning(
                TuningTable.of(
                    List.of(
                        new TuningTable.Rule(null, 3, 0, 1 << 20, Algorithm.ONE_SHOT),
                        new TuningTable.Rule(null, 0, 4, 1 << 20, Algorithm.ONE_SHOT),
                        new TuningTable.Rule(DataType.FLOAT32, 4, 2, 16, Algorithm.TWO_SHOT),
                        new TuningTable.Rule(null, 0, 0, 16, Algorithm.HIERARCHICAL),
                        new TuningTable.Rule(null, 0, 0, 64, Algorithm.ONE_SHOT))))
            .build();
    try (Ranks ranks = new Ranks(4, config)) {
      assertThat(algorithm(ranks, DataType.FLOAT32, 4, Algorithm.AUTO))
          .isEqualTo(Algorithm.TWO_SHOT);
      assertThat(algorithm(ranks, DataType.FLOAT16, 8, Algorithm.AUTO))
          .isEqualTo(Algorithm.HIERARCHICAL);
      assertThat(algorithm(ranks, DataType.FLOAT32, 5, Algorithm.AUTO))
          .isEqualTo(Algorithm.ONE_SHOT);
      assertThat(algorithm(ranks, DataType.FLOAT32, 4, Algorithm.HIERARCHICAL))
          .isEqualTo(Algorithm.HIERARCHICAL);
    }
  }

  private static Algorithm algorithm(Ranks ranks, DataType type, int count, Algorithm named)
      throws Exception {
    ranks.all(
        (member, rank) -> {
          Ranks.allReduce(member, ranks.room(type, count), ReduceOp.SUM, named);
        });
    int code = ranks.member(0).call(1).algorithm();
    return Arrays.stream(Algorithm.values())
        .filter(a -> a.code() == code)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void aTableForAnotherArchitectureIsRefused() {
    TuningTable.Rule rule =
        new TuningTable.Rule(
            null,
            0,
            0,
            64,
            Algorithm.TWO_SHOT,
            TuningTable.Collective.ALL_REDUCE,
            "sm_90",
            new TuningTable.LaunchShape(8, 0, 2));
    GroupConfig config = GroupConfig.builder().tuning(TuningTable.of(List.of(rule))).build();
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    assertThatThrownBy(
            () ->
                NativeCommunicator.prepare(
                    "a group of 2", Backend.CPU, 0, 1, 2, id, Links.NONE, config))
        .hasMessageContaining(
            "the tuning table was made for compute capability 9.0, and rank 1 has x86-64");
  }

  @Test
  void membersWithOtherRulesOrOtherNodesDoNotConnect() {
    TuningTable table =
        TuningTable.of(List.of(new TuningTable.Rule(null, 0, 0, 64, Algorithm.TWO_SHOT)));
    for (GroupConfig other :
        List.of(
            GroupConfig.builder().tuning(table).build(),
            GroupConfig.builder().gpusPerNode(1).build())) {
      byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
      try (NativeCommunicator zero =
              NativeCommunicator.prepare(
                  "a group of 2", Backend.CPU, 0, 0, 2, id, Links.NONE, GroupConfig.defaults());
          NativeCommunicator one =
              NativeCommunicator.prepare(
                  "a group of 2", Backend.CPU, 0, 1, 2, id, Links.NONE, other)) {
        byte[][] descriptors = {zero.descriptor(), one.descriptor()};
        assertThatThrownBy(() -> zero.connect(descriptors))
            .isInstanceOf(GroupMismatchException.class);
        assertThatThrownBy(() -> one.connect(descriptors))
            .isInstanceOf(GroupMismatchException.class);
      }
    }
  }

  @Test
  void transfersAreDescribedByTheirPairAndLeaveTheNumberOfTheCollectiveAlone() throws Exception {
    try (Ranks ranks = new Ranks(2, TIMEOUT)) {
      ranks.all(
          (member, rank) -> {
            DeviceBuffer send = ranks.buffer(DataType.FLOAT32, 1, 2, 3);
            DeviceBuffer recv = ranks.buffer(DataType.FLOAT32, 0, 0, 0);
            Ranks.barrier(member);
            int peer = 1 - rank;
            if (rank == 0) {
              member.run(new Call().send(send, peer), 0);
            } else {
              member.run(new Call().recv(recv, peer), 0);
              assertThat(contents(recv)).containsExactly(1, 2, 3);
            }
            member.run(new Call().sendReceive(send, peer, recv, peer), 0);
          });
      List<CallRecord> zero = ranks.member(1).flightRecord(0);
      assertThat(zero)
          .extracting(CallRecord::description)
          .startsWith("barrier #1", "send #1 float32[3] to rank 1")
          .contains(
              "send #2 float32[3] to rank 1 in a batch of 2",
              "recv #1 float32[3] from rank 1 in a batch of 2");
      assertThat(zero).extracting(CallRecord::groupSequence).containsOnly(1L);
      assertThat(zero.get(1))
          .returns(1, CallRecord::peer)
          .returns(true, CallRecord::isSend)
          .returns(true, CallRecord::isTransfer);
    }
  }

  private static float value(int rank, int i) {
    // Small integers: any order of summation gives the same float.
    return (rank + 1) * (i % 97);
  }

  private static float[] values(int rank, int count) {
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = value(rank, i);
    }
    return values;
  }

  private static float[] contents(DeviceBuffer buffer) {
    float[] values = new float[(int) buffer.count()];
    Arrays.fill(values, Float.NaN);
    buffer.copyTo(values);
    return values;
  }
}
