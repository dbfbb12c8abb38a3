package io.nvrar.internal.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.standalone.ForeignDevice;
import io.nvrar.standalone.Members;
import java.util.List;
import java.util.Locale;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Mistakes in a fused all-reduce that only the call can see; none of them costs the group. */
@Tag("contract")
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@NullUnmarked
class FusionChecksTest {
  private Members members;
  private CollectiveGroup group;
  private Device device;

  /** Room for buffers of 8 elements, 32 bytes, that overlap or do not. */
  private DeviceBuffer room;

  @BeforeAll
  void join() {
    members = Members.join("fused checks", 2, Members.config().build());
    group = members.rank(1);
    device = group.device();
    room = device.allocate(DataType.FLOAT32, 64);
  }

  @AfterAll
  void everyMemberStillWorks() {
    members.onAll(CollectiveGroup::barrier);
    room.close();
    members.close();
  }

  private DeviceBuffer at(int element) {
    return room.slice(element, 8);
  }

  private static void refused(ThrowingCallable call, String sentence) {
    assertThatThrownBy(call)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  private void overlap(String one, String other, DeviceBuffer input, AllReduceFusion fusion) {
    assertThatThrownBy(() -> group.allReduce(input, fusion))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageMatching(one + " \\(.* bytes at 0x.*\\) and " + other + " \\(.*\\) overlap");
  }

  private AllReduceFusion normed(int residual, int residualOut, int weight, int output) {
    return AllReduceFusion.residualRmsNorm(
        at(residual), at(residualOut), at(weight), 1e-5f, at(output));
  }

  private AllReduceFusion folded(int residual, int residualOut, int weight, int output, int sum) {
    return AllReduceFusion.residualRmsNormFold(
        at(residual), at(residualOut), at(weight), at(output), room.slice(sum, 1));
  }

  @Test
  void nullIsNamed() {
    AllReduceFusion fusion = AllReduceFusion.residual(at(8), at(8));
    refused(
        () -> group.allReduce(at(0), (AllReduceFusion) null),
        "fusion is null, allReduce needs an AllReduceFusion");
    refused(() -> group.allReduce(null, fusion), "input is null, a call needs a buffer");
    refused(
        () -> group.allReduce(at(0), fusion, null, group.stream()),
        "algorithm is null, allReduce needs an Algorithm");
    refused(
        () -> group.allReduce(at(0), fusion, Algorithm.AUTO, null),
        "stream is null, the group computes on " + device);
  }

  @Test
  void theInputMustBeLikeTheOutput() {
    AllReduceFusion fusion = AllReduceFusion.bias(at(8), at(16));
    refused(
        () -> group.allReduce(room.slice(0, 12), fusion),
        "input holds 12 elements, output holds 8");
    try (DeviceBuffer halves = device.allocate(DataType.FLOAT16, 8)) {
      refused(() -> group.allReduce(halves, fusion), "input holds FLOAT16, output holds FLOAT32");
    }
  }

  @Test
  void theHierarchicalAlgorithmNeedsSeveralNodes() {
    refused(
        () ->
            group.allReduce(
                at(0),
                AllReduceFusion.residual(at(8), at(8)),
                Algorithm.HIERARCHICAL,
                group.stream()),
        "algorithm is HIERARCHICAL, which needs several nodes, and the group's 2 ranks are one");
  }

  @Test
  void everyAddressIsAMultipleOf16Bytes() {
    unaligned("input", at(1), normed(16, 24, 32, 40));
    unaligned("residual", at(0), normed(17, 32, 40, 48));
    unaligned("residualOut", at(0), normed(16, 26, 40, 48));
    unaligned("weight", at(0), normed(16, 24, 33, 48));
    unaligned("bias", at(0), AllReduceFusion.bias(at(18), at(32)));
    unaligned("output", at(0), normed(16, 24, 32, 43));
    unaligned("squares", at(0), folded(16, 24, 32, 40, 50));
  }

  private void unaligned(String name, DeviceBuffer input, AllReduceFusion fusion) {
    assertThatThrownBy(() -> group.allReduce(input, fusion))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageMatching(
            name
                + " begins at 0x[0-9a-f]+, a fused all-reduce needs addresses that are multiples of 16");
  }

  @Test
  void whatIsWrittenMayBeTheInputOrTheResidualAndOverlapsNothingElse() {
    overlap("input", "output", at(0), normed(16, 24, 32, 4));
    overlap("residual", "output", at(0), normed(16, 24, 32, 12));
    overlap("weight", "output", at(0), normed(16, 24, 32, 32));
    overlap("input", "residualOut", at(0), normed(16, 4, 32, 40));
    overlap("residual", "residualOut", at(0), normed(16, 20, 32, 40));
    overlap("weight", "residualOut", at(0), normed(16, 32, 32, 40));
    overlap("output", "residualOut", at(0), normed(16, 24, 32, 24));
    overlap("output", "residualOut", at(0), normed(16, 0, 32, 0));
    overlap("bias", "output", at(0), AllReduceFusion.bias(at(8), at(8)));
  }

  @Test
  void theSumsOfSquaresOverlapNothing() {
    overlap("input", "squares", at(0), folded(16, 24, 32, 40, 0));
    overlap("residual", "squares", at(0), folded(16, 24, 32, 40, 20));
    overlap("residualOut", "squares", at(0), folded(16, 24, 32, 40, 24));
    overlap("weight", "squares", at(0), folded(16, 24, 32, 40, 36));
    overlap("output", "squares", at(0), folded(16, 24, 32, 40, 40));
  }

  @Test
  void aCallWithoutDataMayHaveItsEmptyBuffersAnywhere() {
    members.onAll(
        member -> {
          Device own = member.device();
          try (DeviceBuffer rows = own.allocate(DataType.FLOAT32, 16);
              DeviceBuffer none = rows.slice(member.rank() == 1 ? 3 : 0, 0)) {
            float[] values = new float[16];
            values[3] = 1;
            rows.copyFrom(values);
            DeviceBuffer eight = rows.slice(0, 8);
            DeviceBuffer odd = rows.slice(member.rank() == 1 ? 1 : 0, 8);
            for (AllReduceFusion fusion :
                List.of(
                    AllReduceFusion.residual(none, none),
                    AllReduceFusion.bias(odd, none),
                    AllReduceFusion.residualRmsNorm(none, none, eight, 0, none),
                    AllReduceFusion.residualRmsNormFold(none, none, eight, none, none))) {
              member.allReduce(none, fusion);
            }
            member.allReduce(none);
            member.allReduce(eight, AllReduceFusion.residual(eight, eight));
            Members.complete(member);
            rows.copyTo(values);
            assertThat(values[3]).isEqualTo(3);
          }
        });
  }

  @Test
  void aClosedBufferOfAnyKindIsRefused() {
    for (int closed = 0; closed < 6; closed++) {
      DeviceBuffer[] buffers = new DeviceBuffer[6];
      for (int i = 0; i < buffers.length; i++) {
        buffers[i] = device.allocate(DataType.FLOAT32, i == 5 ? 1 : 8);
      }
      AllReduceFusion fusion =
          AllReduceFusion.residualRmsNormFold(
              buffers[1], buffers[2], buffers[3], buffers[4], buffers[5]);
      buffers[closed].close();
      assertThatThrownBy(() -> group.allReduce(buffers[0], fusion))
          .isExactlyInstanceOf(IllegalStateException.class)
          .hasMessage(
              String.format(Locale.ROOT, "the buffer float32[%d] is closed", closed == 5 ? 1 : 8));
      for (DeviceBuffer buffer : buffers) {
        buffer.close();
      }
    }
  }

  @Test
  void anotherDevicesBufferAndStreamAreRefused() {
    DeviceBuffer foreign = new ForeignDevice.ForeignBuffer();
    String place = " lives on GPU 3, the group computes on " + device;
    AllReduceFusion fusion = AllReduceFusion.residual(at(8), at(8));
    refused(() -> group.allReduce(foreign, fusion), "input" + place);
    refused(
        () -> group.allReduce(at(0), AllReduceFusion.residual(foreign, at(8))), "residual" + place);
    refused(() -> group.allReduce(at(0), AllReduceFusion.bias(foreign, at(8))), "bias" + place);
    refused(
        () -> group.allReduce(at(0), AllReduceFusion.residual(at(8), foreign)), "output" + place);
    refused(
        () ->
            group.allReduce(
                at(0), AllReduceFusion.residualRmsNorm(at(8), foreign, at(16), 0, at(24))),
        "residualOut" + place);
    refused(
        () ->
            group.allReduce(
                at(0), AllReduceFusion.residualRmsNorm(at(8), at(8), foreign, 0, at(24))),
        "weight" + place);
    DeviceBuffer foreignSum = new ForeignDevice.ForeignBuffer(DataType.FLOAT32, 1);
    refused(
        () ->
            group.allReduce(
                at(0),
                AllReduceFusion.residualRmsNormFold(at(8), at(8), at(16), at(24), foreignSum)),
        "squares" + place);
    DeviceStream stream = new ForeignDevice.ForeignStream();
    refused(
        () -> group.allReduce(at(0), fusion, Algorithm.AUTO, stream),
        "the stream belongs to GPU 3, the group computes on " + device);
  }

  @Test
  void aBatchTakesNone() {
    AllReduceFusion fusion = AllReduceFusion.residual(at(8), at(8));
    assertThatThrownBy(() -> group.batch(() -> group.allReduce(at(0), fusion)))
        .isExactlyInstanceOf(IllegalStateException.class)
        .hasMessage(
            "allReduce was called inside a batch, which takes send, recv and sendReceive only");
  }
}
