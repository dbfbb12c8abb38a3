package io.nvrar.internal.device.cuda;

import com.sun.jna.NativeLibrary;
import io.nvrar.internal.CpuList;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/** Pins itself near GPU 3 and says which cores each of its threads has, as the kernel sees it. */
final class PinnedProcess {
  /** GPU 3's. */
  static final PciAddress ADDRESS = new PciAddress(1, 0x1a, 2);

  private PinnedProcess() {}

  /**
   * The arguments are the root of sysfs, and the cores to which its thread "narrow" is set before.
   */
  public static void main(String[] args) throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    start("early", end, () -> {});
    start("narrow", end, () -> setOwn(CpuList.parse(args[1])));
    NearCores.pin(Path.of(args[0]), "GPU 3", ADDRESS);
    start("late", end, () -> {});
    try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
      tasks.map(PinnedProcess::coresOf).flatMap(Optional::stream).forEach(System.out::println);
    }
    end.countDown();
  }

  private static void start(String name, CountDownLatch end, Runnable work) throws Exception {
    CountDownLatch worked = new CountDownLatch(1);
    Runnable all =
        () -> {
          work.run();
          worked.countDown();
          try {
            end.await();
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
        };
    new Thread(all, name).start();
    worked.await();
  }

  private static void setOwn(CpuList cores) {
    byte[] mask = cores.toMask();
    Object[] arguments = {0, (long) mask.length, mask};
    int status =
        NativeLibrary.getInstance("libc.so.6")
            .getFunction("sched_setaffinity")
            .invokeInt(arguments);
    if (status != 0) {
      throw new IllegalStateException("a thread cannot be set to " + cores);
    }
  }

  private static Optional<String> coresOf(Path task) {
    List<String> status;
    try {
      status = Files.readAllLines(task.resolve("status"));
    } catch (IOException e) {
      return Optional.empty(); // the JVM ends threads of its own at any time
    }
    return Optional.of(field(status, "Name:") + " has " + field(status, "Cpus_allowed_list:"));
  }

  private static String field(List<String> status, String name) {
    return status.stream()
        .filter(line -> line.startsWith(name))
        .findFirst()
        .map(line -> line.substring(name.length()).strip())
        .orElseThrow();
  }
}
