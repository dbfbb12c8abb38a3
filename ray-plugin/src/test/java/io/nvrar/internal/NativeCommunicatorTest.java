package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.device.host.HostDevice;
import java.time.Duration;
import java.util.Arrays;
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
              member.allReduce(
                  send.address(),
                  recv.address(),
                  count,
                  DataType.FLOAT32.code(),
                  ReduceOp.SUM.code(),
                  0,
                  0);
              assertThat(contents(recv)).isEqualTo(sum);
              assertThat(contents(send)).isEqualTo(values(rank, count));
              member.allReduce(
                  send.address(),
                  send.address(),
                  count,
                  DataType.FLOAT32.code(),
                  ReduceOp.MAX.code(),
                  0,
                  0);
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
              long at = buffer.address();
              member.allReduce(at, at, 3, type.code(), ReduceOp.SUM.code(), 0, 0);
              assertThat(contents(buffer)).containsExactly(6, -6, 1.5f);
            });
      }
      ranks.all(
          (member, rank) -> {
            int[] result = new int[2];
            try (DeviceBuffer buffer = HostDevice.instance().allocate(DataType.INT32, 2)) {
              buffer.copyFrom(new int[] {Integer.MAX_VALUE, 10 * rank});
              long at = buffer.address();
              member.allReduce(at, at, 2, DataType.INT32.code(), ReduceOp.SUM.code(), 0, 0);
              buffer.copyTo(result);
            }
            assertThat(result).containsExactly((int) (3L * Integer.MAX_VALUE), 30);
          });
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
              member.allGather(send.address(), recv.address(), count, DataType.FLOAT32.code(), 0);
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
                member.broadcast(
                    buffer.address(), buffer.address(), count, DataType.FLOAT32.code(), from, 0);
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
              member.barrier(0);
              assertThat(entered.get()).isGreaterThanOrEqualTo(round * worldSize);
              member.barrier(0);
            }
          });
    }
  }

  @Test
  void theLastCallOfEveryRankIsDescribedAsTheApiSpellsIt() throws Exception {
    try (Ranks ranks = new Ranks(2, TIMEOUT)) {
      assertThat(ranks.member(0).call(1)).isEqualTo(CallRecord.NONE);
      String[] descriptions = {
        "allReduce #1 float32[3] SUM",
        "allReduce #2 bfloat16[5] MAX",
        "allGather #3 float16[2]",
        "broadcast #4 int32[7] from root 1",
        "barrier #5"
      };
      for (int call = 0; call < descriptions.length; call++) {
        int number = call;
        ranks.all(
            (member, rank) -> {
              DeviceBuffer a = ranks.buffer(DataType.FLOAT32, new float[16]);
              DeviceBuffer b = ranks.buffer(DataType.FLOAT32, new float[16]);
              long send = a.address();
              long recv = b.address();
              switch (number) {
                case 0 -> member.allReduce(send, recv, 3, DataType.FLOAT32.code(), 0, 0, 0);
                case 1 -> member.allReduce(send, recv, 5, DataType.BFLOAT16.code(), 2, 0, 0);
                case 2 -> member.allGather(send, recv, 2, DataType.FLOAT16.code(), 0);
                case 3 -> member.broadcast(send, recv, 7, DataType.INT32.code(), 1, 0);
                default -> member.barrier(0);
              }
            });
        for (int of = 0; of < 2; of++) {
          assertThat(ranks.member(1 - of).call(of))
              .returns(CallRecord.State.DONE, CallRecord::state)
              .returns(call + 1L, CallRecord::sequence)
              .returns(call + 1L, CallRecord::groupSequence)
              .returns(descriptions[call], CallRecord::description);
        }
      }
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
