package io.nvrar.internal.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.standalone.ForeignDevice;
import io.nvrar.standalone.Members;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Every mistake is one sentence with both sides, changes nothing, and costs the group nothing. */
@Tag("contract")
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
    refused(
        () -> group.reduce(four, eight, ReduceOp.SUM, 1, group.stream()),
        "send holds 4 elements, recv holds 8");
    refused(
        () -> group.reduceScatter(eight, four),
        "send holds 8 elements, 4 ranks x 4 of recv need 16");
    refused(() -> group.allToAll(eight, four), "send holds 8 elements, recv holds 4");
    refused(
        () -> group.allToAll(eight.slice(0, 6)),
        "send holds 6 elements, which cannot be divided equally among 4 ranks");
  }

  @Test
  void onlyTheRootLooksAtTheResultOfAReduce() {
    // Rank 1 is not the root: whatever recv is there, it is rank 0 that is waited for.
    members.onAll(
        member -> {
          Device own = member.device();
          try (DeviceBuffer send = own.allocate(DataType.FLOAT32, 8);
              DeviceBuffer recv = own.allocate(DataType.FLOAT32, member.rank() == 0 ? 8 : 3)) {
            send.copyFrom(new float[8]);
            member.reduce(send, member.rank() == 2 ? null : recv, ReduceOp.SUM, 0, member.stream());
            Members.complete(member);
          }
        });
    refused(
        () -> group.reduce(eight, null, ReduceOp.SUM, 1, group.stream()),
        "recv is null, a call needs a buffer");
    refused(
        () -> group.reduce(null, null, ReduceOp.SUM, 0, group.stream()),
        "send is null, a call needs a buffer");
  }

  @Test
  void anAverageOfIntegersIsRefused() {
    for (DataType type : DataType.values()) {
      if (type.isFloat()) {
        continue;
      }
      try (DeviceBuffer integers = device.allocate(type, 8)) {
        String sentence = "op is AVG, which is for floats, and send holds " + type;
        refused(() -> group.allReduce(integers, ReduceOp.AVG), sentence);
        refused(() -> group.reduce(integers, ReduceOp.AVG, 0), sentence);
        refused(() -> group.reduce(integers, ReduceOp.AVG, 1), sentence);
        refused(() -> group.reduceScatter(integers, integers.slice(2, 2), ReduceOp.AVG), sentence);
      }
    }
  }

  @Test
  void theHierarchicalAlgorithmNeedsSeveralNodes() {
    refused(
        () -> group.allReduce(eight, eight, ReduceOp.SUM, Algorithm.HIERARCHICAL, group.stream()),
        "algorithm is HIERARCHICAL, which needs several nodes, and the group's 4 ranks are one");
  }

  @Test
  void typesMustAgree() {
    try (DeviceBuffer ints = device.allocate(DataType.INT32, 8)) {
      refused(
          () -> group.allReduce(eight, ints, ReduceOp.SUM, group.stream()),
          "send holds FLOAT32, recv holds INT32");
      refused(() -> group.allToAll(ints, eight), "send holds INT32, recv holds FLOAT32");
      refused(
          () -> group.reduceScatter(eight, ints.slice(0, 2)),
          "send holds FLOAT32, recv holds INT32");
      refused(() -> group.allGather(four, ints), "send holds FLOAT32, recv holds INT32");
      refused(
          () -> group.reduce(ints, eight, ReduceOp.SUM, 1, group.stream()),
          "send holds INT32, recv holds FLOAT32");
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
    assertThatThrownBy(() -> group.reduceScatter(eight, eight.slice(0, 2)))
        .hasMessageContaining("overlap");
    assertThatThrownBy(() -> group.reduceScatter(eight, eight.slice(3, 2)))
        .hasMessageContaining("overlap");
    assertThatThrownBy(() -> group.allToAll(low, high)).hasMessageContaining("overlap");
    assertThatThrownBy(() -> group.reduce(low, high, ReduceOp.SUM, 1, group.stream()))
        .hasMessageContaining("overlap");
  }

  @Test
  void theRootMustBeARank() {
    refused(() -> group.broadcast(eight, 4), "root is 4, the group's ranks are 0 to 3");
    refused(() -> group.broadcast(eight, -1), "root is -1, the group's ranks are 0 to 3");
    refused(() -> group.reduce(eight, 4), "root is 4, the group's ranks are 0 to 3");
  }

  @Test
  void nullIsNamed() {
    refused(
        () -> group.allReduce(null, eight, ReduceOp.SUM, group.stream()),
        "send is null, a call needs a buffer");
    refused(
        () -> group.allReduce(eight, null, ReduceOp.SUM, group.stream()),
        "recv is null, a call needs a buffer");
    refused(
        () -> group.allReduce(eight, eight, null, group.stream()),
        "op is null, allReduce needs a ReduceOp");
    refused(() -> group.reduce(eight, null, 0), "op is null, reduce needs a ReduceOp");
    refused(
        () -> group.reduceScatter(eight, eight.slice(2, 2), null),
        "op is null, reduceScatter needs a ReduceOp");
    refused(
        () -> group.allReduce(eight, eight, ReduceOp.SUM, null, group.stream()),
        "algorithm is null, allReduce needs an Algorithm");
    refused(() -> group.allToAll(null, eight), "send is null, a call needs a buffer");
    refused(() -> group.reduceScatter(eight, null), "recv is null, a call needs a buffer");
    refused(() -> group.barrier(null), "stream is null, the group computes on " + device);
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
        .hasMessage("the stream is closed, a call needs an open one on " + device);
    assertThatThrownBy(() -> group.barrier(closed)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void anotherDevicesBufferAndStreamAreRefused() {
    DeviceBuffer foreign = new ForeignDevice.ForeignBuffer();
    refused(
        () -> group.allReduce(foreign, eight, ReduceOp.SUM, group.stream()),
        "send lives on GPU 3, the group computes on " + device);
    refused(
        () -> group.allReduce(eight, new ForeignDevice.ForeignStream()),
        "the stream belongs to GPU 3, the group computes on " + device);
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
