package io.nvrar.it.actors;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.GroupHealth;
import io.nvrar.ReduceOp;
import io.nvrar.device.Devices;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.OrdinalProbe;
import io.nvrar.ray.RayCollectives;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
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
  private String ending = "";
  private long endNanos;
  private volatile boolean enough;

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
    return call.collective.wrong(kept(name), call);
  }

  private CollectiveGroup kept(String name) {
    CollectiveGroup group = kept.get(name);
    if (group == null) {
      throw new IllegalArgumentException("not kept: " + name);
    }
    return group;
  }

  /** The device of this member and the backend of the group. */
  public String device(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    return String.format(Locale.ROOT, "%s (%s)", group.device(), group.backend());
  }

  /**
   * Splits the group into its even and its odd ranks, in reverse order, and says which of these
   * this member is in and what its sum of 2 to the power of the ranks is.
   */
  public String sumOfHalf(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (CollectiveGroup half = group.split(group.rank() % 2, -group.rank()).orElseThrow()) {
      return sumOfRanks(group, half);
    }
  }

  /**
   * Makes a group of all four ranks, named in an order in which those of a host are apart, and says
   * which of them this member is and what its sum of 2 to the power of the ranks is.
   */
  public String sumOfMixed(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (CollectiveGroup mixed = group.newGroup(3, 0, 2, 1).orElseThrow()) {
      return sumOfRanks(group, mixed);
    }
  }

  private static String sumOfRanks(CollectiveGroup group, CollectiveGroup child) {
    try (DeviceBuffer buffer = child.device().allocate(DataType.INT32, 1)) {
      int[] sum = {1 << group.rank()};
      buffer.copyFrom(sum);
      child.allReduce(buffer);
      buffer.copyTo(sum);
      return String.format(
          Locale.ROOT,
          "rank %d of %d in %s has %d",
          child.rank(),
          child.worldSize(),
          child.name(),
          sum[0]);
    }
  }

  public GroupHealth health(String name) {
    return RayCollectives.group(name).health();
  }

  /**
   * All-reduces until {@link #enough} was called on every actor; what is wrong with a sum, "" if
   * nothing.
   */
  public String sumUntilEnough(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    int[] values = new int[1000];
    try (DeviceBuffer buffer = group.device().allocate(DataType.INT32, values.length)) {
      for (int round = 0; ; round++) {
        for (int i = 1; i < values.length; i++) {
          values[i] = round + i + group.rank();
        }
        values[0] = enough ? 1 : 0;
        buffer.copyFrom(values);
        group.allReduce(buffer);
        buffer.copyTo(values);
        int ranks = group.worldSize();
        for (int i = 1; i < values.length; i++) {
          int sum = ranks * (round + i) + ranks * (ranks - 1) / 2;
          if (values[i] != sum) {
            return String.format(
                Locale.ROOT, "element %d of sum %d is %d, must be %d", i, round, values[i], sum);
          }
        }
        if (values[0] == ranks) {
          return round < 50 ? String.format(Locale.ROOT, "only %d sums", round) : "";
        }
      }
    }
  }

  /** Ends {@link #sumUntilEnough}, which runs meanwhile. */
  public boolean enough() {
    enough = true;
    return true;
  }

  /** All-reduces until the group fails, and throws that. */
  public long reduceForever(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      while (true) {
        // On a GPU some of them are on their way at any time.
        for (int i = 0; i < 32; i++) {
          group.allReduce(buffer);
        }
        finish(group, group.stream());
      }
    } finally {
      endNanos = System.nanoTime();
    }
  }

  /**
   * When {@link #reduceForever} or {@link #replayForever} has ended, on {@link System#nanoTime()},
   * which is one clock for all processes of a machine.
   */
  public long endNanos() {
    return endNanos;
  }

  /** {@link #reduceForever} for a driver that may not live to hear of the end. */
  public boolean endOfReducing(String name) {
    try {
      reduceForever(name);
    } catch (CollectiveException e) {
      ending = String.valueOf(e.getMessage());
    }
    return true;
  }

  /** What the last {@link #endOfReducing} ended with. */
  public String ending() {
    return ending;
  }

  /** Launches a graph of all-reduces until the group fails, and throws that. */
  public long replayForever(String name, int calls) {
    CollectiveGroup group = RayCollectives.group(name);
    try (DeviceStream stream = group.device().createStream();
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024);
        DeviceGraph graph =
            group
                .device()
                .capture(
                    stream,
                    () -> {
                      for (int i = 0; i < calls; i++) {
                        group.allReduce(buffer, stream);
                      }
                    })) {
      while (true) {
        graph.launch(stream);
        finish(group, stream);
      }
    } finally {
      endNanos = System.nanoTime();
    }
  }

  /**
   * All-reduces in two groups in turn, of which nobody waits for the other; what is wrong with the
   * last sums, "" if nothing.
   */
  public String inTurn(String one, String other, int rounds) {
    CollectiveGroup first = RayCollectives.group(one);
    CollectiveGroup second = RayCollectives.group(other);
    try (DeviceBuffer given = first.device().allocate(DataType.INT32, 1000);
        DeviceBuffer ofFirst = first.device().allocate(DataType.INT32, 1000);
        DeviceBuffer ofSecond = first.device().allocate(DataType.INT32, 1000)) {
      Values.write(given, i -> 1 + i);
      for (int round = 0; round < rounds; round++) {
        first.allReduce(given, ofFirst, ReduceOp.SUM, first.stream());
        second.allReduce(given, ofSecond, ReduceOp.SUM, second.stream());
      }
      finish(first, first.stream());
      finish(second, second.stream());
      return Values.wrong(ofFirst, i -> first.worldSize() * (1.0 + i))
          + Values.wrong(ofSecond, i -> second.worldSize() * (1.0 + i));
    }
  }

  /** Waits for the other members, who do not come, until the group fails, and throws that. */
  public boolean barrier(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    group.barrier();
    finish(group, group.stream());
    return true;
  }

  /** Waits for what was submitted, and throws what it failed of. */
  private static void finish(CollectiveGroup group, DeviceStream stream) {
    stream.synchronize();
    group.throwIfFailed();
  }

  /** How many milliseconds the device still worked at what a failed group had submitted. */
  public long settle(String name) {
    CollectiveGroup group = kept(name);
    long start = System.nanoTime();
    try {
      group.stream().synchronize();
    } catch (CollectiveException e) {
      // Of the group's failure; that it came back is what counts.
    }
    if (group.backend() == Backend.CUDA) {
      GpuState.synchronize(group.device());
    }
    return (System.nanoTime() - start) / 1_000_000;
  }

  /** Whether the device of a group that has failed and is closed still computes; "" if it does. */
  public String deviceWorks(String name) {
    Device device = kept(name).device();
    try (DeviceStream stream = device.createStream();
        DeviceBuffer from = device.allocate(DataType.INT32, 1 << 20);
        DeviceBuffer to = device.allocate(DataType.INT32, 1 << 20)) {
      Values.write(from, i -> i);
      stream.copy(from, to);
      stream.synchronize();
      return Values.wrong(to, i -> i);
    }
  }

  /** Bytes of the actor's GPU that nobody holds; opens it if no group has. */
  public long freeBytes() {
    return GpuState.freeBytes(Devices.open(Backend.CUDA, new OrdinalProbe().ordinal()));
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

  /** Ends this process in a while, as the kernel does that has no memory left. */
  public boolean dieIn(int millis) {
    Thread killer =
        new Thread(
            () -> {
              try {
                Thread.sleep(millis);
                new ProcessBuilder("sh", "-c", "kill -9 " + pid()).start();
              } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
              }
            });
    killer.setDaemon(true);
    killer.start();
    return true;
  }

  public boolean raise(RuntimeException exception) {
    throw exception;
  }

  /** Ends the group because of a file that is not there, and throws what that comes to. */
  public boolean abortForAFile(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    group.abort(new UncheckedIOException(new NoSuchFileException("weights")));
    group.throwIfFailed();
    return true;
  }
}
