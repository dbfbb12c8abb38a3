package io.nvrar.it;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The tests' actor. Makes values by itself and compares results by itself, because Ray carries
 * large arrays slowly. The checks return what is wrong, or nothing.
 */
public class Probe implements CollectiveActor {

  private static final String RIGHT = "";

  private final Map<String, CollectiveGroup> kept = new HashMap<>();

  /** An integer that every type holds exactly, as it does the sum over 8 ranks. */
  private static int value(int rank, int i) {
    return (rank * 7 + i * 3) % 13 - 6;
  }

  public String checkAllReduce(String name, int count, String type, String op) {
    CollectiveGroup group = RayCollectives.group(name);
    ReduceOp operation = ReduceOp.valueOf(op);
    try (DeviceBuffer buffer = group.device().allocate(DataType.valueOf(type), count)) {
      write(buffer, i -> value(group.rank(), i));
      group.allReduce(buffer, operation);
      return compare(
          buffer,
          i -> {
            int expected = value(0, i);
            for (int rank = 1; rank < group.worldSize(); rank++) {
              int other = value(rank, i);
              expected = operation == ReduceOp.SUM ? expected + other : Math.max(expected, other);
            }
            return expected;
          });
    }
  }

  public String checkAllGather(String name, int count, String type) {
    CollectiveGroup group = RayCollectives.group(name);
    DataType dataType = DataType.valueOf(type);
    try (DeviceBuffer send = group.device().allocate(dataType, count);
        DeviceBuffer recv = group.device().allocate(dataType, (long) count * group.worldSize())) {
      write(send, i -> value(group.rank(), i));
      group.allGather(send, recv);
      return compare(recv, i -> value(i / count, i % count));
    }
  }

  public String checkBroadcast(String name, int count, String type, int root) {
    CollectiveGroup group = RayCollectives.group(name);
    try (DeviceBuffer buffer = group.device().allocate(DataType.valueOf(type), count)) {
      write(buffer, i -> value(group.rank(), i));
      group.broadcast(buffer, root);
      return compare(buffer, i -> value(root, i));
    }
  }

  private static void write(DeviceBuffer buffer, IntUnaryOperator value) {
    int count = Math.toIntExact(buffer.count());
    if (buffer.dataType() == DataType.INT32) {
      int[] values = new int[count];
      for (int i = 0; i < count; i++) {
        values[i] = value.applyAsInt(i);
      }
      buffer.copyFrom(values);
    } else {
      float[] values = new float[count];
      for (int i = 0; i < count; i++) {
        values[i] = value.applyAsInt(i);
      }
      buffer.copyFrom(values);
    }
  }

  private static String compare(DeviceBuffer buffer, IntUnaryOperator expected) {
    int count = Math.toIntExact(buffer.count());
    double[] found = new double[count];
    if (buffer.dataType() == DataType.INT32) {
      int[] values = new int[count];
      buffer.copyTo(values);
      for (int i = 0; i < count; i++) {
        found[i] = values[i];
      }
    } else {
      float[] values = new float[count];
      buffer.copyTo(values);
      for (int i = 0; i < count; i++) {
        found[i] = values[i];
      }
    }
    for (int i = 0; i < count; i++) {
      if (found[i] != expected.applyAsInt(i)) {
        return "element %d of %d is %s, expected %d"
            .formatted(i, count, found[i], expected.applyAsInt(i));
      }
    }
    return RIGHT;
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

  /** Uses an object that {@link #keep} kept. */
  public boolean useKept(String name) {
    CollectiveGroup group = kept.get(name);
    if (group == null) {
      throw new IllegalArgumentException("not kept: " + name);
    }
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      group.allReduce(buffer);
    }
    return true;
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
