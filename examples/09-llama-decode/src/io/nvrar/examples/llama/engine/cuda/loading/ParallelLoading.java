package io.nvrar.examples.llama.engine.cuda.loading;

import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.RankTensor;
import io.nvrar.examples.llama.weights.TensorSource;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Fills pieces of tensors by several threads, each of which fills one while its last is copied. The
 * bytes are the same for any number of threads.
 *
 * @param <T> where pieces are copied to
 */
public final class ParallelLoading<T> {
  /** Fills more than a PCIe link takes. */
  private static final int MOST_THREADS = 8;

  /** Past all pieces. Half the range, because each thread still adds to it. */
  private static final int NO_MORE = Integer.MAX_VALUE / 2;

  private final TensorSource source;
  private final int pieceBytes;
  private final List<Piece<T>> pieces = new ArrayList<>();

  /**
   * A piece of a tensor.
   *
   * @param offset its first byte within the tensor
   * @param bytes how many
   * @param target of the tensor
   */
  record Piece<T>(RankTensor tensor, FloatFormat format, long offset, int bytes, T target) {}

  /** What one thread fills and copies by. Closed once no thread uses it. */
  interface Lane<T> extends Resources.Resource {
    /** Memory for a piece that nothing reads from any more. */
    ByteBuffer next(Piece<T> piece);

    /** Begins to copy what {@link #next} has returned and was filled. */
    void copy(Piece<T> piece);

    /** Waits for all copies. */
    void finish();
  }

  ParallelLoading(TensorSource source, int pieceBytes) {
    this.source = source;
    this.pieceBytes = pieceBytes;
  }

  /** How many threads a rank has that shares its host with all others. */
  public static int threads(int processors, int ranks) {
    return Math.max(2, Math.min(MOST_THREADS, processors / ranks));
  }

  /** Adds a tensor to those that {@link #run} loads. */
  void add(RankTensor tensor, FloatFormat format, T target) {
    long bytes = tensor.bytes(format);
    for (long done = 0; done < bytes; done += pieceBytes) {
      int count = (int) Math.min(pieceBytes, bytes - done);
      pieces.add(new Piece<>(tensor, format, done, count, target));
    }
  }

  /**
   * Loads all, and returns when no thread is at work any more.
   *
   * @param lanes makes the lane of a thread
   */
  void run(int threads, Supplier<Lane<T>> lanes) {
    run(threads, lanes, ParallelLoading::daemon);
  }

  /** Loads all by threads of a factory. */
  void run(int threads, Supplier<Lane<T>> lanes, ThreadFactory factory) {
    try (Resources resources = new Resources()) {
      List<Lane<T>> all = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        all.add(resources.own(lanes.get()));
      }
      fill(all, factory);
    }
  }

  private void fill(List<Lane<T>> lanes, ThreadFactory factory) {
    AtomicInteger next = new AtomicInteger();
    ExecutorService pool = Executors.newFixedThreadPool(lanes.size(), factory);
    List<Future<?>> running = new ArrayList<>();
    Throwable failure = null;
    try {
      for (Lane<T> lane : lanes) {
        running.add(pool.submit(() -> fill(lane, next)));
      }
    } catch (RuntimeException | Error e) {
      // The system allows no more threads. Those that run use lanes, which are closed after them.
      next.set(NO_MORE);
      failure = e;
    }
    pool.shutdown();
    boolean interrupted = false;
    for (Future<?> thread : running) {
      boolean ended = false;
      while (!ended) {
        try {
          thread.get();
          ended = true;
        } catch (ExecutionException e) {
          failure = joined(failure, e.getCause());
          ended = true;
        } catch (InterruptedException e) {
          // A thread ends with the piece that it fills, and its lane must not be closed before.
          interrupted = true;
          next.set(NO_MORE);
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
      failure = joined(failure, new IllegalStateException("interrupted while weights were loaded"));
    }
    if (failure instanceof Error error) {
      throw error;
    }
    if (failure instanceof RuntimeException unchecked) {
      throw unchecked;
    }
  }

  private void fill(Lane<T> lane, AtomicInteger next) {
    try {
      for (int own; (own = next.getAndIncrement()) < pieces.size(); ) {
        Piece<T> piece = pieces.get(own);
        ByteBuffer memory = lane.next(piece);
        piece.tensor().read(source, piece.format(), piece.offset(), memory);
        lane.copy(piece);
      }
    } catch (RuntimeException | Error e) {
      next.set(NO_MORE);
      throw e;
    }
    lane.finish();
  }

  private static Throwable joined(@Nullable Throwable before, @Nullable Throwable next) {
    if (before == null) {
      return Objects.requireNonNull(next);
    }
    if (next != null && next != before) {
      before.addSuppressed(next);
    }
    return before;
  }

  // So that an actor that is told to end does not wait for it.
  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "load-piece");
    thread.setDaemon(true);
    return thread;
  }
}
