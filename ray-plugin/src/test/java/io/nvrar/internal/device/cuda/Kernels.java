package io.nvrar.internal.device.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
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

      .visible .entry hold(.param .u64 address, .param .u64 nanos) {
        .reg .u64 %at, %now, %end;
        .reg .u32 %value;
        .reg .pred %yes;
        ld.param.u64 %at, [address];
        ld.param.u64 %end, [nanos];
        mov.u64 %now, %globaltimer;
        add.u64 %end, %end, %now;
      look:
        ld.volatile.global.u32 %value, [%at];
        setp.ne.u32 %yes, %value, 0;
        @%yes bra over;
        mov.u64 %now, %globaltimer;
        setp.lt.u64 %yes, %now, %end;
        @%yes bra look;
      over:
        ret;
      }
      """;

  /** So long at most is a stream held. */
  private static final long HOLD_MILLIS = 20_000;

  private static final int HOLDS = 16;

  /** Kept, for a kernel may still look at them. */
  private static final List<DeviceBuffer> KEPT = new CopyOnWriteArrayList<>();

  private final CUfunction storeLate = new CUfunction();
  private final CUfunction hold = new CUfunction();

  /** Made before anything runs: pinned memory may be had only when nothing does. */
  private final DeviceBuffer flags;

  private int held;

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
    DriverCall.check(
        "cuModuleGetFunction", device, () -> JCudaDriver.cuModuleGetFunction(hold, module, "hold"));
    flags = device.allocatePinned(DataType.INT32, HOLDS);
    flags.copyFrom(new int[HOLDS]);
    KEPT.add(flags);
  }

  /** Keeps a stream from going on until what it returns is run. */
  Runnable hold(DeviceStream stream) {
    DeviceBuffer flag = flags.slice(held++, 1);
    launch(hold, stream, flag.address(), HOLD_MILLIS);
    return () -> flag.copyFrom(new int[] {1});
  }

  /** Writes 42 to the first integer after a time. */
  void storeLate(DeviceStream stream, DeviceBuffer target, long millis) {
    launch(storeLate, stream, target.address(), millis);
  }

  /** Writes to an address that is none. */
  void breakTheContext(DeviceStream stream) {
    launch(storeLate, stream, 0, 0);
  }

  private static void launch(CUfunction kernel, DeviceStream stream, long address, long millis) {
    Pointer parameters =
        Pointer.to(Pointer.to(new long[] {address}), Pointer.to(new long[] {millis * 1_000_000L}));
    DriverCall.check(
        "cuLaunchKernel",
        stream.device(),
        () ->
            JCudaDriver.cuLaunchKernel(
                kernel, 1, 1, 1, 1, 1, 1, 0, CudaInterop.stream(stream), parameters, null));
  }
}
