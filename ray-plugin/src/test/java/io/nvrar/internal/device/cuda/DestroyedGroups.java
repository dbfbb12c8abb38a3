package io.nvrar.internal.device.cuda;

import com.sun.jna.NativeLibrary;
import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.time.Duration;
import java.util.Locale;

/**
 * Makes groups on a GPU of the stub that their observer destroys and nobody closes, and prints what
 * the driver still holds after the first and after the last.
 */
final class DestroyedGroups {
  private static final int ROUNDS = 4;
  private static final Duration LIMIT = Duration.ofSeconds(10);

  private DestroyedGroups() {}

  /** With {@code failed}, each group has a call that fails before. */
  public static void main(String[] args) throws Exception {
    boolean failed = args.length > 0 && args[0].equals("failed");
    try (DeviceBuffer buffer = CudaDevices.open(0).allocate(DataType.FLOAT32, 1)) {
      buffer.copyFrom(new float[1]); // what the first copy makes may wait
      destroyOne(failed, buffer);
      long first = settled(0);
      for (int round = 1; round < ROUNDS; round++) {
        destroyOne(failed, buffer);
      }
      System.out.printf(Locale.ROOT, "living: %d more%n", settled(first) - first);
    }
  }

  private static void destroyOne(boolean failed, DeviceBuffer buffer) throws Exception {
    GroupConfig config =
        GroupConfig.builder()
            .backend(Backend.CUDA)
            .joinTimeout(Duration.ofSeconds(20))
            .ringBytes(8192)
            .build();
    GroupTicket ticket = Groups.createTicket("destroyed", 1, config, "127.0.0.1");
    try (GroupObserver observer = Groups.observe(ticket)) {
      CollectiveGroup group = Groups.join(ticket, 0);
      if (failed) {
        try {
          group.allReduce(buffer);
        } catch (CollectiveException e) {
          System.out.println("call: " + e.getClass().getSimpleName());
        }
      }
      observer.destroy();
      awaitClosed(group);
      if (failed) {
        System.out.println("first copy: " + outcome(buffer));
        System.out.println("second copy: " + outcome(buffer));
      }
    }
  }

  private static void awaitClosed(CollectiveGroup group) throws Exception {
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (!((CudaStream) group.stream()).isClosed() && System.nanoTime() < deadline) {
      Thread.sleep(10);
    }
  }

  private static String outcome(DeviceBuffer buffer) {
    try {
      buffer.copyTo(new float[1]);
      return "done";
    } catch (CollectiveException e) {
      return e.getClass().getSimpleName();
    }
  }

  /** What lives, once it is no more than {@code wanted} or does not change any more. */
  private static long settled(long wanted) throws Exception {
    long deadline = System.nanoTime() + LIMIT.toNanos() / 5;
    long living = living();
    while (living > wanted && System.nanoTime() < deadline) {
      Thread.sleep(20);
      living = living();
    }
    return living;
  }

  private static long living() {
    return NativeLibrary.getInstance("libcuda.so.1")
        .getFunction("stub_cuda_living")
        .invokeLong(new Object[0]);
  }
}
