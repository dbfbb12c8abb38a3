package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.host.HostDevice;
import io.nvrar.standalone.Members;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A call that cannot begin keeps nothing: no buffer, and not the group. */
class CallGateTest {

  /** A stream that was closed after the call's arguments were checked. */
  private static AsyncStream closedStream(Device device) {
    return (AsyncStream)
        Proxy.newProxyInstance(
            CallGateTest.class.getClassLoader(),
            new Class<?>[] {AsyncStream.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("device")) {
                return device;
              }
              if (method.getName().equals("isClosed")) {
                return false;
              }
              throw new IllegalStateException(method.getName() + " was called on a closed stream");
            });
  }

  @Test
  void aFusedAllReduceOnAStreamThatWasClosedKeepsNoBuffer() {
    List<Long> freed = new ArrayList<>();
    DeviceBuffer[] buffers = new DeviceBuffer[6];
    for (int i = 0; i < buffers.length; i++) {
      buffers[i] =
          HostDevice.instance()
              .adoptPinned(DataType.FLOAT32, i == 5 ? 1 : 8, 256L * (i + 1), freed::add);
    }
    AllReduceFusion fusion =
        AllReduceFusion.residualRmsNormFold(
            buffers[1], buffers[2], buffers[3], buffers[4], buffers[5]);
    long closing;
    try (Members members = Members.join("gate", 1, Members.config().backend(Backend.CPU).build())) {
      AsyncStream closed = closedStream(members.rank(0).device());
      assertThatThrownBy(
              () -> members.rank(0).allReduce(buffers[0], fusion, Algorithm.AUTO, closed))
          .isExactlyInstanceOf(IllegalStateException.class)
          .hasMessage("carry was called on a closed stream");
      for (DeviceBuffer buffer : buffers) {
        buffer.close();
      }
      assertThat(freed).containsExactly(256L, 512L, 768L, 1024L, 1280L, 1536L);
      members.rank(0).barrier();
      closing = System.nanoTime();
    }
    assertThat(Duration.ofNanos(System.nanoTime() - closing))
        .as("a call that has not ended for the group keeps it for the join timeout")
        .isLessThan(Duration.ofSeconds(4));
  }
}
