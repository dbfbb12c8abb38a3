package io.nvrar.device.cuda;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import jcuda.Pointer;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;

/** Work that takes time or does harm, on a real GPU. */
final class Kernels {
  private static final String PTX =
      """
      .version 7.0
      .target sm_80
      .address_size 64

      .visible .entry store_late(.param .u64 address, .param .u64 nanos) {
        .reg .u64 %at, %now, %end;
        .reg .u32 %value;
        .reg .pred %early;
        ld.param.u64 %at, [address];
        ld.param.u64 %end, [nanos];
        mov.u64 %now, %globaltimer;
        add.u64 %end, %end, %now;
      wait:
        mov.u64 %now, %globaltimer;
        setp.lt.u64 %early, %now, %end;
        @%early bra wait;
        mov.u32 %value, 42;
        st.global.u32 [%at], %value;
        ret;
      }
      """;

  private final CUfunction storeLate = new CUfunction();

  /** Compiles them for a GPU, whose context is current. */
  Kernels(Device device) {
    DriverCall.check(
        "cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(CudaInterop.context(device)));
    CUmodule module = new CUmodule();
    DriverCall.check("cuModuleLoadData", device, () -> JCudaDriver.cuModuleLoadData(module, PTX));
    DriverCall.check(
        "cuModuleGetFunction",
        device,
        () -> JCudaDriver.cuModuleGetFunction(storeLate, module, "store_late"));
  }

  /** Writes 42 to the first integer after a time. */
  void storeLate(DeviceStream stream, DeviceBuffer target, long millis) {
    store(stream, target.address(), millis);
  }

  /** Writes to an address that is none. */
  void breakTheContext(DeviceStream stream) {
    store(stream, 0, 0);
  }

  private void store(DeviceStream stream, long address, long millis) {
    Pointer parameters =
        Pointer.to(Pointer.to(new long[] {address}), Pointer.to(new long[] {millis * 1_000_000L}));
    DriverCall.check(
        "cuLaunchKernel",
        stream.device(),
        () ->
            JCudaDriver.cuLaunchKernel(
                storeLate, 1, 1, 1, 1, 1, 1, 0, CudaInterop.stream(stream), parameters, null));
  }
}
