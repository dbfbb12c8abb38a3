package io.nvrar.standalone;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** The members of a group as threads of this process. */
public final class Members implements AutoCloseable {
  public static final String HOST = "127.0.0.1";

  final List<CollectiveGroup> groups;
  private final ExecutorService threads;

  private Members(List<CollectiveGroup> groups, ExecutorService threads) {
    this.groups = groups;
    this.threads = threads;
  }

  /** Short limits, so that a defect shows in seconds; whoever starts a GPU needs some. */
  public static GroupConfig.Builder config() {
    return GroupConfig.builder()
        .backend(TestBackend.backend())
        .timeout(Duration.ofSeconds(10))
        .joinTimeout(Duration.ofSeconds(TestBackend.isCuda() ? 30 : 10))
        .heartbeatLimit(Duration.ofSeconds(5));
  }

  /** {@link Groups#join} on the device that is the rank's in tests. */
  public static CollectiveGroup join(GroupTicket ticket, int rank) {
    return Groups.join(ticket, rank, TestBackend.ordinal(rank));
  }

  /**
   * Returns when what this member has called is done, or throws what it has come to. On the host it
   * is done, or has thrown, when the call returns; on a GPU it is enqueued.
   */
  public static void complete(CollectiveGroup group) {
    group.stream().synchronize();
  }

  public static Members join(String name, int worldSize, GroupConfig config) {
    return joinAll(Groups.createTicket(name, worldSize, config, HOST), worldSize);
  }

  static Members joinAll(GroupTicket ticket, int worldSize) {
    ExecutorService threads = Executors.newCachedThreadPool();
    List<Callable<CollectiveGroup>> joins = new ArrayList<>();
    for (int r = 0; r < worldSize; r++) {
      int rank = r;
      joins.add(() -> join(ticket, rank));
    }
    return new Members(getAll(threads, joins), threads);
  }

  /** Members that are there already, such as those of a split. */
  public static Members of(List<CollectiveGroup> groups) {
    return new Members(groups, Executors.newCachedThreadPool());
  }

  public CollectiveGroup rank(int rank) {
    return groups.get(rank);
  }

  /** A barrier that is over when this returns. */
  public static void barrier(CollectiveGroup group) {
    group.barrier();
    complete(group);
  }

  /** Runs the same on every member at once and waits until it is done. */
  public void onAll(Consumer<CollectiveGroup> work) {
    List<Callable<Void>> calls = new ArrayList<>();
    for (CollectiveGroup group : groups) {
      calls.add(
          () -> {
            work.accept(group);
            if (!group.isClosed()) {
              complete(group);
            }
            return null;
          });
    }
    getAll(threads, calls);
  }

  /** Starts something on a thread of its own. */
  public <T> Future<T> start(Callable<T> work) {
    return threads.submit(work);
  }

  /** Runs all at once; the first failure is thrown when all have ended. */
  public static <T> List<T> getAll(ExecutorService threads, List<Callable<T>> calls) {
    List<Future<T>> futures = calls.stream().map(threads::submit).toList();
    List<T> results = new ArrayList<>();
    RuntimeException first = null;
    for (Future<T> future : futures) {
      try {
        results.add(future.get(60, TimeUnit.SECONDS));
      } catch (ExecutionException e) {
        if (first == null) {
          first =
              e.getCause() instanceof RuntimeException cause
                  ? cause
                  : new IllegalStateException(e.getCause());
        } else {
          first.addSuppressed(e.getCause());
        }
      } catch (Exception e) {
        throw new IllegalStateException("a member did not come to an end", e);
      }
    }
    if (first != null) {
      throw first;
    }
    return results;
  }

  /** The exception that a member's work ended with. */
  public static Throwable failureOf(Future<?> work) throws Exception {
    try {
      Object result = work.get(20, TimeUnit.SECONDS);
      throw new AssertionError("it did not fail but returned " + result);
    } catch (ExecutionException e) {
      return Objects.requireNonNull(e.getCause());
    }
  }

  @Override
  public void close() {
    try {
      onAll(CollectiveGroup::close);
    } finally {
      threads.shutdownNow();
    }
  }
}
