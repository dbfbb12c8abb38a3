package io.nvrar.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Every mistake is one sentence with both sides, changes nothing, and costs the group nothing. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@NullUnmarked
class CallChecksTest {
  private Members members;
  private CollectiveGroup group;
  private Device device;
  private DeviceBuffer eight;
  private DeviceBuffer four;

  @BeforeAll
  void join() {
    members = Members.join("checks", 4, Members.config().build());
    group = members.rank(1);
    device = group.device();
    eight = device.allocate(DataType.FLOAT32, 8);
    four = device.allocate(DataType.FLOAT32, 4);
  }

  @AfterAll
  void everyMemberStillWorks() {
    members.onAll(CollectiveGroup::barrier);
    eight.close();
    four.close();
    members.close();
  }

  @BeforeEach
  void isOpen() {
    assertThat(group.isClosed()).isFalse();
  }

  private static void refused(Runnable call, String sentence) {
    assertThatThrownBy(call::run)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  void countsMustAgree() {
    refused(
        () -> group.allReduce(eight, four, ReduceOp.SUM, group.stream()),
        "send holds 8 elements, recv holds 4");
    refused(() -> group.allGather(four, eight), "recv holds 8 elements, 4 ranks x 4 need 16");
    refused(
        () -> group.broadcast(four, eight, 1, group.stream()),
        "send holds 4 elements, recv holds 8");
  }

  @Test
  void typesMustAgree() {
    try (DeviceBuffer ints = device.allocate(DataType.INT32, 8)) {
      refused(
          () -> group.allReduce(eight, ints, ReduceOp.SUM, group.stream()),
          "send holds FLOAT32, recv holds INT32");
    }
  }

  @Test
  void buffersMayNotOverlap() {
    DeviceBuffer low = eight.slice(0, 4);
    DeviceBuffer high = eight.slice(2, 4);
    assertThatThrownBy(() -> group.allReduce(low, high, ReduceOp.SUM, group.stream()))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageMatching("send \\(16 bytes at 0x.*\\) and recv \\(16 bytes at 0x.*\\) overlap");
    // This rank's own part is its place; another rank's is not.
    assertThatThrownBy(() -> group.allGather(eight.slice(0, 2), eight))
        .hasMessageContaining("overlap");
  }

  @Test
  void theRootMustBeARank() {
    refused(() -> group.broadcast(eight, 4), "root is 4, the group's ranks are 0 to 3");
    refused(() -> group.broadcast(eight, -1), "root is -1, the group's ranks are 0 to 3");
  }

  @Test
  void nullIsNamed() {
    refused(
        () -> group.allReduce(null, eight, ReduceOp.SUM, group.stream()),
        "send is null, a collective needs a buffer");
    refused(
        () -> group.allReduce(eight, null, ReduceOp.SUM, group.stream()),
        "recv is null, a collective needs a buffer");
    refused(
        () -> group.allReduce(eight, eight, null, group.stream()),
        "op is null, allReduce needs a ReduceOp");
    refused(() -> group.barrier(null), "stream is null, the group computes on host");
  }

  @Test
  void aClosedBufferIsRefused() {
    DeviceBuffer closed = device.allocate(DataType.FLOAT32, 8);
    closed.close();
    assertThatThrownBy(() -> group.allReduce(closed)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aClosedStreamIsRefused() {
    DeviceStream closed = device.createStream();
    closed.close();
    assertThatThrownBy(() -> group.allReduce(eight, closed))
        .isExactlyInstanceOf(IllegalStateException.class)
        .hasMessage("the stream is closed, a collective needs an open one on host");
    assertThatThrownBy(() -> group.barrier(closed)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void anotherDevicesBufferAndStreamAreRefused() {
    DeviceBuffer foreign = new ForeignDevice.ForeignBuffer();
    refused(
        () -> group.allReduce(foreign, eight, ReduceOp.SUM, group.stream()),
        "send lives on GPU 3, the group computes on host");
    refused(
        () -> group.allReduce(eight, new ForeignDevice.ForeignStream()),
        "the stream belongs to GPU 3, the group computes on host");
  }

  @Test
  void aRefusedCallIsNotRecorded() {
    assertThatThrownBy(() -> device.capture(group.stream(), () -> group.broadcast(eight, 9)))
        .isInstanceOf(IllegalArgumentException.class);
    try (DeviceGraph empty = device.capture(group.stream(), () -> {})) {
      empty.launch(group.stream());
    }
  }
}
