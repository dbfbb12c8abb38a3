package io.nvrar.internal.device.cuda;

import io.nvrar.DeviceStream;
import io.nvrar.internal.device.cuda.CudaContract.Held;
import org.junit.jupiter.api.Tag;

/** On a real GPU. */
@Tag("gpu")
class GpuInteropTest extends CudaInteropContract {
  /** Loaded before a test holds anything: what is loaded later may wait for it. */
  private final Kernels kernels = new Kernels(device());

  @Override
  Held hold(DeviceStream held) {
    return kernels.hold(held)::run;
  }
}
