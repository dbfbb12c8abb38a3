package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.internal.device.cuda.CudaContract.Held;
import jcuda.driver.CUevent;
import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** On the stub of native/test/stub_cuda. */
@Tag("stub-cuda")
class StubInteropTest extends CudaInteropContract {
  @Override
  Held hold(DeviceStream held) {
    return StubDriver.hold(held);
  }

  @Test
  void wrappersMakeAndLeaveNothing() {
    CUevent event = new CUevent();
    JCudaDriver.cuEventCreate(event, 0);
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, 1)) {
      buffer.copyFrom(new int[1]);
      long living = StubDriver.living();
      for (long handle = 0; handle < 3; handle++) {
        try (DeviceStream stream = CudaInterop.wrapStream(device(), handle);
            DeviceEvent wrapped = CudaInterop.wrapEvent(device(), event)) {
          stream.waitFor(wrapped);
          buffer.copyFrom(new int[1]);
          assertThat(StubDriver.living()).isEqualTo(living);
        }
      }
      assertThat(StubDriver.living()).isEqualTo(living);
    } finally {
      JCudaDriver.cuEventDestroy(event);
    }
  }

  @Test
  void aBlockingCopyThatCannotWaitForADefaultStreamSaysSoAndLeavesNothing() {
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, 1);
        DeviceStream stream = CudaInterop.wrapStream(device(), 1)) {
      buffer.copyFrom(new int[1]);
      long living = StubDriver.living();
      for (String function :
          new String[] {
            "cuStreamIsCapturing", "cuEventCreate", "cuEventRecord", "cuEventSynchronize"
          }) {
        StubDriver.fail(function + ":1:1");
        try {
          assertThatThrownBy(() -> buffer.copyFrom(new int[] {3}))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(function + " failed on GPU 0");
        } finally {
          StubDriver.fail("");
        }
        assertThat(StubDriver.living()).isEqualTo(living);
      }
      int[] back = {-1};
      buffer.copyTo(back, stream);
      assertThat(back).containsExactly(0);
    }
  }
}
