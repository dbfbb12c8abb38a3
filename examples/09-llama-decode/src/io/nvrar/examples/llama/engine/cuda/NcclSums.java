package io.nvrar.examples.llama.engine.cuda;

import static java.util.concurrent.TimeUnit.SECONDS;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Nccl;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/**
 * NCCL's all-reduces, to compare with. What a fusion does with the sums, a call of a group of this
 * rank alone does behind them.
 */
final class NcclSums implements PartialSums {
  private static final int LIMIT_SECONDS = 60;

  private final Nccl nccl;
  private final long communicator;
  private final CollectiveGroup alone;

  private NcclSums(Nccl nccl, long communicator, CollectiveGroup alone) {
    this.nccl = nccl;
    this.communicator = communicator;
    this.alone = alone;
  }

  /**
   * Connects the ranks of a group, each of which calls this.
   *
   * @param library of NCCL: a name that the loader finds, or a path
   * @param alone a group of this rank, on the same GPU; stays the caller's
   */
  static NcclSums connect(String library, CollectiveGroup group, CollectiveGroup alone) {
    Nccl nccl = Nccl.open(library);
    byte[] id = shared(group, group.rank() == 0 ? nccl.uniqueId() : new byte[0]);
    Gpu gpu = new Gpu(group.device());
    // NCCL waits for the other ranks without an end.
    CompletableFuture<Long> joined = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                gpu.enter();
                joined.complete(nccl.join(group.worldSize(), id, group.rank()));
              } catch (RuntimeException | Error e) {
                joined.completeExceptionally(e);
              }
            },
            "nccl-join");
    thread.setDaemon(true);
    thread.start();
    return new NcclSums(nccl, await(joined), alone);
  }

  private static byte[] shared(CollectiveGroup group, byte[] mine) {
    byte[] id = new byte[Nccl.ID_BYTES];
    try (DeviceBuffer buffer = group.device().allocate(DataType.INT8, id.length)) {
      if (group.rank() == 0) {
        buffer.copyFrom(mine);
      }
      group.broadcast(buffer, 0);
      buffer.copyTo(id);
    }
    return id;
  }

  private static long await(CompletableFuture<Long> joined) {
    try {
      return joined.get(LIMIT_SECONDS, SECONDS);
    } catch (TimeoutException e) {
      throw new IllegalStateException(
          "NCCL did not connect all ranks in " + LIMIT_SECONDS + " seconds", e);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof RuntimeException cause
          ? cause
          : new IllegalStateException("NCCL failed", e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while NCCL connects the ranks", e);
    }
  }

  @Override
  public void allReduce(DeviceBuffer buffer, DeviceStream stream) {
    nccl.allReduce(communicator, buffer, stream);
  }

  @Override
  public void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream) {
    nccl.allReduce(communicator, buffer, stream);
    alone.allReduce(buffer, fusion, stream);
  }

  @Override
  public void close() {
    nccl.abort(communicator);
  }
}
