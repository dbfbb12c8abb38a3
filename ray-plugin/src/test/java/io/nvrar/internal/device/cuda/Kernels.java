package io.nvrar.internal.device.cuda;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.CudaModule;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

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

  private final CudaKernel storeLate;
  private final CudaKernel hold;

  /** Made before anything runs: pinned memory may be had only when nothing does. */
  private final DeviceBuffer flags;

  private int held;

  /** Compiles them for a GPU. They stay loaded. */
  Kernels(Device device) {
    CudaModule module = CudaModule.load(device, PTX.getBytes(US_ASCII));
    storeLate = module.kernel("store_late");
    hold = module.kernel("hold");
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

  private static void launch(CudaKernel kernel, DeviceStream stream, long address, long millis) {
    KernelArguments arguments =
        new KernelArguments().parameter().int64(address).parameter().int64(millis * 1_000_000L);
    kernel.launch(stream, LaunchConfig.of(1, 1), arguments);
  }
}
