package io.nvrar.examples.llama.engine.cuda.kernels;

import com.sun.jna.Pointer;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/**
 * The chosen tokens of the last steps, which the GPU writes to the host's memory and the host reads
 * without stopping the GPU: for each step and row a word of the step's number from 1 on, and the
 * token.
 */
public final class TokenRing implements Resources.Resource {
  /** In place of the token of a row that is idle. */
  public static final int IDLE = -1;

  /** In place of a token that logits which are no finite numbers would give. */
  public static final int NOT_FINITE = -2;

  /** In place of a token that the GPU could not choose by what it has. */
  public static final int UNDECIDED = -3;

  private static final VarHandle WORD =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  /** How often the host looks before it sleeps between looks. */
  private static final int SPINS = 2000;

  private static final long SLEEP_NANOS = 20_000;

  private static final long CHECK_NANOS = 20_000_000;

  private final Resources resources = new Resources();
  private final Gpu gpu;
  private final CollectiveGroup group;
  private final DeviceStream stream;
  private final int steps;
  private final int rows;
  private final DeviceBuffer words;
  private final ByteBuffer memory;

  public TokenRing(Gpu gpu, CollectiveGroup group, DeviceStream stream, int steps, int rows) {
    this.gpu = gpu;
    this.group = group;
    this.stream = stream;
    this.steps = steps;
    this.rows = rows;
    words = resources.allocatePinned(gpu.device(), DataType.INT64, (long) steps * rows);
    memory =
        new Pointer(words.address())
            .getByteBuffer(0, words.sizeBytes())
            .order(ByteOrder.nativeOrder());
  }

  /** INT64 [steps][rows]. */
  public DeviceBuffer words() {
    return words;
  }

  public int steps() {
    return steps;
  }

  /** Empties it. Nothing that writes to it may be running. */
  public void clear() {
    for (int at = 0; at < memory.capacity(); at += Long.BYTES) {
      WORD.setVolatile(memory, at, 0L);
    }
  }

  /**
   * Waits for the token of a row.
   *
   * @param step counted from 0
   * @throws RuntimeException if the group has failed, or the GPU, or no token came in twice the
   *     time that a call of the group may take
   */
  public int await(int step, int row) {
    int at = (step % steps * rows + row) * Long.BYTES;
    for (int spin = 0; spin < SPINS; spin++) {
      long word = read(at);
      if (isOf(step, word)) {
        return (int) word;
      }
      Thread.onSpinWait();
    }
    Duration limit = group.config().timeout().multipliedBy(2);
    long begin = System.nanoTime();
    long checked = begin;
    while (true) {
      long word = read(at);
      if (isOf(step, word)) {
        return (int) word;
      }
      LockSupport.parkNanos(SLEEP_NANOS);
      long now = System.nanoTime();
      if (now - checked > CHECK_NANOS) {
        checked = now;
        check(at, step, row);
        if (now - begin > limit.toNanos()) {
          throw new CollectiveTimeoutException(
              String.format(
                  Locale.ROOT,
                  "the GPU of rank %d has chosen no token of row %d in step %d within %s",
                  group.rank(),
                  row,
                  step,
                  limit));
        }
      }
    }
  }

  private void check(int at, int step, int row) {
    group.throwIfFailed();
    // Once the GPU is done, a word that is still missing will not come.
    if (gpu.isDone(stream) && !isOf(step, read(at))) {
      stream.synchronize();
      group.throwIfFailed();
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "the GPU of rank %d has ended without a token of row %d in step %d",
              group.rank(),
              row,
              step));
    }
  }

  private long read(int at) {
    return (long) WORD.getVolatile(memory, at);
  }

  private static boolean isOf(int step, long word) {
    return (int) (word >>> Integer.SIZE) == step + 1;
  }

  @Override
  public void close() {
    resources.close();
  }
}
