package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.internal.device.host.HostDevice;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A call keeps its arguments until it is cleared, and a copy keeps them longer. */
class CallTest {
  private final DeviceBuffer buffer = HostDevice.instance().allocate(DataType.FLOAT32, 4);
  private final Call call = new Call();

  @AfterEach
  void close() {
    buffer.close();
  }

  @Test
  void aClearedCallReferencesNoBuffer() {
    call.allReduce(buffer, buffer, ReduceOp.MAX, Algorithm.ONE_SHOT).clear();
    assertThat(call.size()).isZero();
    assertThat(call.buffer(0)).isNull();
    assertThat(call.buffer(1)).isNull();
    call.topK(buffer, TopK.argMax(4, 0, indices())).clear();
    assertThat(call.topK()).isNull();
    assertThat(call.buffer(1)).isNull();
  }

  private DeviceBuffer indices() {
    return HostDevice.instance().adoptPinned(DataType.INT32, 1, 256, address -> {});
  }

  @Test
  @SuppressWarnings("NullAway") // what a program without null checks may do
  void anOperatorIsNeverThatOfTheCallBefore() {
    call.allReduce(buffer, buffer, ReduceOp.MAX, Algorithm.ONE_SHOT).clear();
    call.allReduce(buffer, buffer, null, null);
    assertThat(call.op()).isNull();
    assertThat(call.algorithm()).isNull();
  }

  @Test
  void aBatchGrowsAndItsCopyStaysWhenItIsCleared() {
    int transfers = 100;
    call.batch();
    for (int i = 0; i < transfers; i++) {
      if (i % 3 == 0) {
        call.addSend(buffer, i);
      } else {
        call.addRecv(buffer, i);
      }
    }
    Call copy = call.copy();
    call.clear();
    assertThat(copy.kind()).isEqualTo(Call.Kind.BATCH);
    assertThat(copy.size()).isEqualTo(transfers);
    assertThat(copy.bytes()).isEqualTo(16L * transfers);
    assertThat(IntStream.range(0, transfers).map(copy::peer))
        .containsExactly(IntStream.range(0, transfers).boxed().toArray(Integer[]::new));
    assertThat(IntStream.range(0, transfers).filter(copy::isSend).count()).isEqualTo(34);
  }
}
