package io.nvrar.tools.bench.measure;

import io.nvrar.CollectiveException;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets the processes of a run begin a batch within a tenth of a microsecond of each other: each
 * counts in a cache line of its own, in a file that all have mapped, and spins until all have
 * reached the same count.
 */
final class SpinBarrier {
  private static final int LINE_BYTES = 64;
  private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(40);

  /**
   * Longer than the timed work. A process that waits longer waits for a start or for work of the
   * host.
   */
  private static final long SPIN_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  private static final long PARK_NANOS = TimeUnit.MICROSECONDS.toNanos(100);
  private static final int LOOKS_BETWEEN_CLOCKS = 1024;

  private static final VarHandle COUNT =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private final MappedByteBuffer counts;
  private final int rank;
  private final int ranks;
  private long turn;

  private SpinBarrier(MappedByteBuffer counts, int rank, int ranks) {
    this.counts = counts;
    this.rank = rank;
    this.ranks = ranks;
  }

  /** Creates the file for this many ranks, in memory if possible. */
  static Path create(int ranks) throws IOException {
    Path memory = Path.of("/dev/shm");
    Path file =
        Files.isWritable(memory)
            ? Files.createTempFile(memory, "nvrar-bench", "")
            : Files.createTempFile("nvrar-bench", "");
    file.toFile().deleteOnExit();
    Files.write(file, new byte[ranks * LINE_BYTES]);
    return file;
  }

  static SpinBarrier open(Path file, int rank, int ranks) throws IOException {
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return new SpinBarrier(
          channel.map(MapMode.READ_WRITE, 0, (long) ranks * LINE_BYTES), rank, ranks);
    }
  }

  /** Returns when all ranks have reached the barrier. */
  void await() {
    turn++;
    COUNT.setRelease(counts, rank * LINE_BYTES, turn);
    long begin = System.nanoTime();
    for (int other = 0; other < ranks; other++) {
      for (int look = 1; (long) COUNT.getAcquire(counts, other * LINE_BYTES) < turn; look++) {
        Thread.onSpinWait();
        if (look % LOOKS_BETWEEN_CLOCKS == 0) {
          pause(System.nanoTime() - begin, other);
        }
      }
    }
  }

  private static void pause(long waitedNanos, int rank) {
    if (waitedNanos > LIMIT_NANOS) {
      throw new CollectiveException("rank " + rank + " of the benchmark does not come");
    }
    if (waitedNanos > SPIN_NANOS) {
      LockSupport.parkNanos(PARK_NANOS);
    }
  }
}
