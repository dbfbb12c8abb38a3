package io.nvrar.internal.binding;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import io.nvrar.internal.device.host.HostDevice;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** All members of a group in this JVM, each on a thread of its own. */
final class Ranks implements AutoCloseable {
  private static final long LIMIT_SECONDS = 60;

  private final List<NativeCommunicator> members = new ArrayList<>();
  private final List<DeviceBuffer> buffers = new ArrayList<>();
  private final ExecutorService threads = Executors.newCachedThreadPool();

  Ranks(int worldSize, Duration timeout) {
    this(worldSize, GroupConfig.builder().timeout(timeout).build());
  }

  Ranks(int worldSize, GroupConfig config) {
    this(worldSize, config, Links.NONE);
  }

  /** Links between nodes make every node another host's. */
  Ranks(int worldSize, GroupConfig config, Links links) {
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    byte[][] descriptors = new byte[worldSize][];
    for (int rank = 0; rank < worldSize; rank++) {
      NativeCommunicator member =
          NativeCommunicator.prepare(
              "a group of " + worldSize, Backend.CPU, 0, rank, worldSize, id, links, config);
      members.add(member);
      descriptors[rank] = member.descriptor();
    }
    int nodeSize = links.betweenNodes() ? config.gpusPerNode() : worldSize;
    // Together, because linked ranks meet in there.
    List<Future<?>> connects = new ArrayList<>();
    for (int rank = 0; rank < worldSize; rank++) {
      BitSet elsewhere = new BitSet();
      elsewhere.set(0, worldSize);
      elsewhere.clear(rank / nodeSize * nodeSize, (rank / nodeSize + 1) * nodeSize);
      NativeCommunicator member = members.get(rank);
      connects.add(threads.submit(() -> member.connect(descriptors, elsewhere)));
    }
    for (Future<?> connect : connects) {
      try {
        connect.get(LIMIT_SECONDS, TimeUnit.SECONDS);
      } catch (ExecutionException | TimeoutException e) {
        throw new AssertionError("a rank does not connect", e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new AssertionError("interrupted while the ranks connect", e);
      }
    }
  }

  int worldSize() {
    return members.size();
  }

  NativeCommunicator member(int rank) {
    return members.get(rank);
  }

  /** A buffer that lives as long as this. */
  DeviceBuffer buffer(DataType type, float... values) {
    DeviceBuffer buffer = room(type, values.length);
    buffer.copyFrom(values);
    return buffer;
  }

  /** A buffer of no values in particular that lives as long as this. */
  DeviceBuffer room(DataType type, long count) {
    DeviceBuffer buffer = HostDevice.instance().allocate(type, count);
    synchronized (buffers) {
      buffers.add(buffer);
    }
    return buffer;
  }

  /** An all-reduce in place. */
  static void allReduce(
      NativeCommunicator member, DeviceBuffer buffer, ReduceOp op, Algorithm algorithm) {
    member.run(new Call().allReduce(buffer, buffer, op, algorithm), 0);
  }

  static void barrier(NativeCommunicator member) {
    member.run(new Call().barrier(), 0);
  }

  /** What a rank does. */
  interface Step {
    void run(NativeCommunicator member, int rank) throws Exception;
  }

  /** What a rank answers. */
  interface Question<T> {
    T ask(NativeCommunicator member, int rank) throws Exception;
  }

  /** Starts one rank's step. */
  Future<?> start(int rank, Step step) {
    return submit(
        rank,
        (member, r) -> {
          step.run(member, r);
          return true;
        });
  }

  /** Runs a step on all ranks at once and waits for all. The first exception goes on. */
  void all(Step step) throws Exception {
    ask(
        (member, rank) -> {
          step.run(member, rank);
          return true;
        });
  }

  /** Asks all ranks at once; the answers in rank order. The first exception goes on. */
  <T> List<T> ask(Question<T> question) throws Exception {
    List<Future<T>> futures = new ArrayList<>();
    for (int rank = 0; rank < worldSize(); rank++) {
      futures.add(submit(rank, question));
    }
    List<T> answers = new ArrayList<>();
    for (Future<T> future : futures) {
      answers.add(future.get(LIMIT_SECONDS, TimeUnit.SECONDS));
    }
    return answers;
  }

  /** What the step threw on each rank, in rank order. */
  List<Throwable> allFail(Step step) throws Exception {
    return ask(
        (member, rank) -> {
          try {
            step.run(member, rank);
          } catch (RuntimeException e) {
            return e;
          }
          throw new AssertionError("rank " + rank + " did not fail");
        });
  }

  private <T> Future<T> submit(int rank, Question<T> question) {
    Callable<T> task = () -> question.ask(member(rank), rank);
    return threads.submit(task);
  }

  /** Waits until a rank is inside its call with this number. */
  void awaitRunning(int rank, long sequence) {
    CompletableFuture<Void> running =
        CompletableFuture.runAsync(
            () -> {
              CallRecord call = member(rank).call(rank);
              while (call.state() != CallRecord.State.RUNNING || call.sequence() != sequence) {
                Thread.onSpinWait();
                call = member(rank).call(rank);
              }
            },
            threads);
    try {
      running.orTimeout(LIMIT_SECONDS, TimeUnit.SECONDS).join();
    } catch (CompletionException e) {
      throw new AssertionError("rank " + rank + " is not in call #" + sequence, e);
    }
  }

  @Override
  public void close() {
    members.forEach(NativeCommunicator::close);
    threads.shutdown();
    try {
      if (!threads.awaitTermination(LIMIT_SECONDS, TimeUnit.SECONDS)) {
        throw new AssertionError("a rank's thread is still in a call after close");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted while the ranks end", e);
    }
    buffers.forEach(DeviceBuffer::close);
  }
}
