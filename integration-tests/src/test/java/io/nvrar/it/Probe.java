package io.nvrar.it;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupHealth;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The tests' actor. Makes values by itself and compares results by itself, because Ray carries
 * large arrays slowly.
 */
public class Probe implements CollectiveActor {

  private final Map<String, CollectiveGroup> kept = new HashMap<>();

  /** Makes the call; what is wrong with its result, "" if nothing. */
  public String check(String name, Call call) {
    return call.collective.wrong(RayCollectives.group(name), call);
  }

  /** Makes the call with buffers that do not fit each other, and throws what that throws. */
  public boolean checkMisfits(String name, Call call) {
    call.collective.callWithMisfits(RayCollectives.group(name), call);
    return true;
  }

  public int rank(String name) {
    return RayCollectives.rank(name);
  }

  public int worldSize(String name) {
    return RayCollectives.worldSize(name);
  }

  public boolean isGroupInitialized(String name) {
    return RayCollectives.isGroupInitialized(name);
  }

  public boolean destroyGroup(String name) {
    RayCollectives.destroyGroup(name);
    return true;
  }

  /** Keeps the group's object past the life of the group. */
  public boolean keep(String name) {
    kept.put(name, RayCollectives.group(name));
    return true;
  }

  /** {@link #check} with the object that {@link #keep} kept. */
  public String checkKept(String name, Call call) {
    CollectiveGroup group = kept.get(name);
    if (group == null) {
      throw new IllegalArgumentException("not kept: " + name);
    }
    return call.collective.wrong(group, call);
  }

  /**
   * Splits the group into its even and its odd ranks, in reverse order, and says which of these
   * this member is in and what its sum of 2 to the power of the ranks is.
   */
  public String sumOfHalf(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (CollectiveGroup half =
            Objects.requireNonNull(group.split(group.rank() % 2, -group.rank()));
        DeviceBuffer buffer = half.device().allocate(DataType.INT32, 1)) {
      int[] sum = {1 << group.rank()};
      buffer.copyFrom(sum);
      half.allReduce(buffer);
      buffer.copyTo(sum);
      return "rank %d of %d in %s has %d"
          .formatted(half.rank(), half.worldSize(), half.name(), sum[0]);
    }
  }

  public GroupHealth health(String name) {
    return RayCollectives.group(name).health();
  }

  /** All-reduces until the group fails, and throws that. */
  public long reduceForever(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      while (true) {
        group.allReduce(buffer);
      }
    }
  }

  /** Waits for the other members, who do not come, until the group fails, and throws that. */
  public boolean barrier(String name) {
    RayCollectives.group(name).barrier();
    return true;
  }

  public boolean sleep(int millis) throws InterruptedException {
    Thread.sleep(millis);
    return true;
  }

  public long pid() {
    return ProcessHandle.current().pid();
  }

  public String host() throws IOException {
    return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
  }

  /** Descriptors of files, sockets and what else has one. */
  public int openFiles() {
    return Objects.requireNonNull(new File("/proc/self/fd").list()).length;
  }

  /** The threads and the memory that groups have in this process; "" if none. */
  public String held() throws IOException {
    Stream<String> threads =
        Thread.getAllStackTraces().keySet().stream()
            .map(Thread::getName)
            .filter(name -> name.startsWith("nvrar-"));
    try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
      return Stream.concat(threads, maps.filter(line -> line.contains("/memfd:nvrar")))
          .collect(Collectors.joining(", "));
    }
  }

  public boolean raise(RuntimeException exception) {
    throw exception;
  }
}
