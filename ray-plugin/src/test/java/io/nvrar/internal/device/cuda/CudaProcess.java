package io.nvrar.internal.device.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Opens GPUs and copies on each; says what went wrong, or from where JCuda's library came. */
final class CudaProcess {
  static final int FAILED = 3;

  private CudaProcess() {}

  /** The arguments are the time to start at, in ms of the clock, and ordinals. */
  public static void main(String[] args) throws Exception {
    Thread.sleep(Math.max(0, Long.parseLong(args[0]) - System.currentTimeMillis()));
    try {
      for (int i = 1; i < args.length; i++) {
        use(CudaDevices.open(Integer.parseInt(args[i])));
      }
    } catch (RuntimeException e) {
      System.out.println(e.getClass().getSimpleName() + ": " + e.getMessage());
      System.exit(FAILED);
    }
    System.out.println("copied");
    Files.readAllLines(Path.of("/proc/self/maps")).stream()
        .filter(line -> line.contains("libJCudaDriver"))
        .map(line -> line.substring(line.indexOf('/')))
        .distinct()
        .forEach(System.out::println);
  }

  private static void use(Device device) {
    try (DeviceBuffer buffer = device.allocate(DataType.INT32, 3);
        DeviceStream stream = device.createStream()) {
      buffer.copyFrom(new int[] {1, 2, 3});
      stream.synchronize();
      int[] back = new int[3];
      buffer.copyTo(back);
      if (back[2] != 3) {
        throw new IllegalStateException("the copy gave " + back[2]);
      }
    }
  }
}
