package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Daemon;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * The driver's waits for Ray. Ray's own do not notice an interrupt; here one ends them by a {@link
 * CollectiveException}, and the flag is kept. {@code what} is what the driver does meanwhile, for
 * its message.
 */
final class DriverWaits {

  private static final long SLICE_MILLIS = 200;

  private DriverWaits() {}

  /**
   * Waits until one of several tasks has ended, however it has ended.
   *
   * @param deadline by {@link System#nanoTime}; it is looked once even if that is over
   * @return nothing is ready in it if none has ended by then
   */
  static <T> WaitResult<T> forOne(List<ObjectRef<T>> pending, long deadline, String what) {
    while (true) {
      if (Thread.currentThread().isInterrupted()) {
        throw interrupted(what);
      }
      long millis = Math.max(0, (deadline - System.nanoTime()) / 1_000_000);
      WaitResult<T> result = Ray.wait(pending, 1, (int) Math.min(millis, SLICE_MILLIS));
      if (!result.getReady().isEmpty() || millis <= SLICE_MILLIS) {
        return result;
      }
    }
  }

  /** Asks the cluster's GCS, on a thread of its own, which an interrupt leaves to its own end. */
  static <T> T on(Supplier<T> question, String what) {
    return on(question, late -> {}, what);
  }

  /**
   * The same for a call whose result has to be undone.
   *
   * @param undo called with the result if it comes after an interrupt has ended the wait
   */
  static <T> T on(Supplier<T> call, Consumer<? super T> undo, String what) {
    if (Thread.currentThread().isInterrupted()) {
      throw interrupted(what);
    }
    CompletableFuture<T> result = new CompletableFuture<>();
    Daemon.of("nvrar-driver-call", () -> call(call, undo, result)).start();
    try {
      return result.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      CollectiveException interrupted = interrupted(what);
      if (!result.completeExceptionally(interrupted) && !result.isCompletedExceptionally()) {
        try {
          undo.accept(result.join());
        } catch (RuntimeException | Error u) {
          interrupted.addSuppressed(u);
        }
      }
      throw interrupted;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof Error error) {
        throw error;
      }
      throw e.getCause() instanceof RuntimeException unchecked
          ? unchecked
          : new IllegalStateException(e);
    }
  }

  /** What {@code undo} throws is logged by the thread. */
  private static <T> void call(
      Supplier<T> call, Consumer<? super T> undo, CompletableFuture<T> result) {
    T value;
    try {
      value = call.get();
    } catch (RuntimeException | Error e) {
      result.completeExceptionally(e);
      return;
    }
    if (!result.complete(value)) {
      undo.accept(value);
    }
  }

  static CollectiveException interrupted(String what) {
    return new CollectiveException("the driver was interrupted while it " + what);
  }
}
