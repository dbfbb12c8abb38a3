package io.nvrar.tools.bench.setup;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.HalfPrecision;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class CollectiveValuesTest {
  private static CollectiveValues problem(TimedCollective collective, DataType type, ReduceOp op) {
    return CollectiveValues.ofSize(
        new Settings(
            Backend.CPU,
            List.of(Mode.CALLS),
            0,
            MemoryProvider.AUTO,
            false,
            false,
            collective,
            4,
            0,
            0,
            type,
            op,
            Algorithm.AUTO,
            0,
            8,
            8,
            2,
            0,
            -1,
            1,
            0,
            1,
            null),
        2048);
  }

  private static ByteBuffer bytes(CollectiveValues problem, long elements) {
    return ByteBuffer.allocate((int) elements * problem.type().sizeBytes())
        .order(ByteOrder.nativeOrder());
  }

  @Test
  void expectationOfASumIsTheSumOfWhatTheRanksSendAndEachWrongElementCounts() {
    CollectiveValues problem = problem(TimedCollective.ALL_REDUCE, DataType.INT64, ReduceOp.SUM);
    long[] sums = new long[(int) problem.count()];
    for (int rank = 0; rank < 4; rank++) {
      ByteBuffer send = bytes(problem, problem.sendElements());
      problem.fill(5, rank, send);
      send.flip();
      for (int i = 0; i < sums.length; i++) {
        sums[i] += send.getLong();
      }
    }
    ByteBuffer recv = bytes(problem, problem.recvElements());
    recv.asLongBuffer().put(sums);
    assertThat(problem.wrong(5, 3, recv)).isZero();
    recv.putLong(0, sums[0] + 1).putLong(80, sums[10] - 1);
    assertThat(problem.wrong(5, 3, recv)).isEqualTo(2);
    assertThat(problem.wrong(6, 3, recv)).isGreaterThan(sums.length / 2);
  }

  @Test
  void halvesAreThoseOfTheNumbers() {
    CollectiveValues halves = problem(TimedCollective.ALL_REDUCE, DataType.FLOAT16, ReduceOp.SUM);
    CollectiveValues ints = problem(TimedCollective.ALL_REDUCE, DataType.INT32, ReduceOp.SUM);
    ByteBuffer half = bytes(halves, halves.sendElements());
    ByteBuffer number = bytes(ints, ints.sendElements());
    halves.fill(1, 2, half);
    ints.fill(1, 2, number);
    half.flip();
    number.flip();
    while (number.hasRemaining()) {
      assertThat(HalfPrecision.float16ToFloat(half.getShort())).isEqualTo(number.getInt());
    }
  }

  @ParameterizedTest
  @EnumSource(TimedCollective.class)
  void resultThatWasNeverWrittenIsWrong(TimedCollective collective) {
    CollectiveValues problem = problem(collective, DataType.FLOAT32, ReduceOp.SUM);
    ByteBuffer recv = bytes(problem, problem.recvElements());
    while (recv.hasRemaining()) {
      recv.put((byte) 0xA5);
    }
    recv.flip();
    assertThat(problem.wrong(1, 0, recv)).isEqualTo(problem.recvElements());
  }
}
