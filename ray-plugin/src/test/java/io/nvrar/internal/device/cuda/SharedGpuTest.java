package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.support.CudaJvm;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Members of tests that share a GPU: one that waited for all that runs there would wait for a call
 * of another that waits for it. Each in a JVM of its own, of which all members share or none.
 */
class SharedGpuTest {
  @TempDir private Path scratch;

  @Test
  void eachHasADeviceOfItsOwnAndTheDriverFreesNothing() throws Exception {
    assertThat(CudaJvm.onStub(scratch, Map.of(), TwoMembers.class).end(0))
        .isEqualToIgnoringNewLines("GPU 0, GPU 0, same: false, memory again: true");
  }

  @Test
  @Tag("gpu")
  void noneWaitsForWhatAnotherHasSubmitted() throws Exception {
    assertThat(CudaJvm.start(scratch, TwoMembersOneLate.class).end(0))
        .isEqualToIgnoringNewLines("copied 7 while the other's kernel runs: true");
  }

  /** Opens a GPU twice, and makes a buffer there after another of its size is closed. */
  static final class TwoMembers {
    private TwoMembers() {}

    public static void main(String[] args) {
      System.setProperty("nvrar.sharedDevices", "true");
      Device one = CudaDevices.open(0);
      Device other = CudaDevices.open(0);
      DeviceBuffer closed = one.allocate(DataType.INT32, 4);
      long address = closed.address();
      closed.close();
      try (DeviceBuffer buffer = other.allocate(DataType.FLOAT16, 8)) {
        System.out.printf(
            "%s, %s, same: %b, memory again: %b%n",
            one, other, one == other, buffer.address() == address);
      }
    }
  }

  /** Copies to and fro and closes a buffer while a kernel of the other member runs. */
  static final class TwoMembersOneLate {
    private TwoMembersOneLate() {}

    public static void main(String[] args) {
      System.setProperty("nvrar.sharedDevices", "true");
      Device one = CudaDevices.open(0);
      Device other = CudaDevices.open(0);
      Kernels kernels = new Kernels(one);
      int[] back = new int[1];
      int[] copied = {7};
      try (DeviceStream stream = one.createStream();
          DeviceBuffer target = one.allocate(DataType.INT32, 1);
          DeviceBuffer unused = other.allocate(DataType.INT32, 2)) {
        unused.copyFrom(new int[] {1, 2}); // what the first copy makes may wait
        DeviceEvent event = one.createEvent();
        kernels.storeLate(stream, target, 2000);
        event.record(stream);
        DeviceBuffer own = other.allocate(DataType.INT32, 1);
        own.copyFrom(copied);
        own.copyTo(back);
        own.close();
        System.out.printf(
            Locale.ROOT, "copied %d while the other's kernel runs: %b%n", back[0], !event.isDone());
        stream.synchronize();
        event.close();
      }
    }
  }
}
