package io.nvrar.internal.device.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.CapturedLog;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.binding.Call;
import io.nvrar.internal.device.host.HostDevice;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Who hears that a resource cannot be freed. */
class LeaseTest {
  @RegisterExtension private final CapturedLog log = new CapturedLog();

  @Test
  void whoeverClosesHearsThatTheResourceCannotBeFreed() {
    Lease lease = new Lease(LeaseTest::refuse);
    assertThatThrownBy(lease::close).hasMessage("cuMemFree failed");
    assertThatCode(lease::close).doesNotThrowAnyException();
    assertThat(lease.isClosed()).isTrue();
  }

  @Test
  void aCallThatUsedItLastDoesNotAndTheLogDoes() {
    Lease lease = new Lease(LeaseTest::refuse);
    assertThat(lease.retain()).isTrue();
    lease.close();
    assertThatCode(lease::release).doesNotThrowAnyException();
    assertThat(log.text()).contains("cuMemFree failed").contains("closed while in use");
  }

  @Test
  void bothBuffersOfACallAreFreedAlsoIfTheFirstCannotBe() {
    List<Long> freed = new ArrayList<>();
    DeviceBuffer first =
        HostDevice.instance()
            .adoptPinned(
                DataType.INT32,
                0,
                256,
                address -> {
                  freed.add(address);
                  refuse();
                });
    DeviceBuffer second = HostDevice.instance().adoptPinned(DataType.INT32, 0, 512, freed::add);
    BufferMemory.retain(first, second);
    first.close();
    second.close();
    assertThat(freed).isEmpty();
    BufferMemory.release(first, second);
    assertThat(freed).containsExactly(256L, 512L);
  }

  @Test
  void aFusedAllReduceKeepsAllOfItsBuffersOrNone() {
    List<Long> freed = new ArrayList<>();
    for (int closed = 0; closed < 6; closed++) {
      freed.clear();
      DeviceBuffer[] buffers = new DeviceBuffer[6];
      for (int i = 0; i < buffers.length; i++) {
        buffers[i] =
            HostDevice.instance()
                .adoptPinned(DataType.FLOAT32, i == 5 ? 1 : 8, 256L * (i + 1), freed::add);
      }
      DeviceBuffer input = buffers[0];
      AllReduceFusion fusion =
          AllReduceFusion.residualRmsNormFold(
              buffers[1], buffers[2], buffers[3], buffers[4], buffers[5]);
      Call call = new Call().allReduce(input, fusion, Algorithm.AUTO);
      BufferMemory.retain(call);
      buffers[closed].close();
      assertThat(freed).isEmpty();
      BufferMemory.release(call);
      assertThat(freed).containsExactly(256L * (closed + 1));

      assertThatThrownBy(() -> BufferMemory.retain(call)).isInstanceOf(IllegalStateException.class);
      for (DeviceBuffer buffer : buffers) {
        buffer.close();
      }
      assertThat(freed).as("freed at once, because none is kept").hasSize(6);
    }
  }

  private static void refuse() {
    throw new IllegalStateException("cuMemFree failed");
  }
}
