package io.nvrar.examples.llama.engine;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.IntUnaryOperator;

/** Runs the ranks of a real group as threads of this process. */
public final class RankThreads {
  private static final long LIMIT_SECONDS = 120;

  private RankThreads() {}

  /** Runs {@code body} on each rank of a new group; returns what they return, by rank. */
  public static <T> List<T> run(int worldSize, Function<CollectiveGroup, T> body) throws Exception {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    return run(worldSize, config, rank -> 0, body);
  }

  /**
   * Runs {@code body} on each rank of a new group of a configuration.
   *
   * @param devices the ordinal of a rank's device
   */
  public static <T> List<T> run(
      int worldSize,
      GroupConfig config,
      IntUnaryOperator devices,
      Function<CollectiveGroup, T> body)
      throws Exception {
    GroupTicket ticket = Groups.createTicket("llama", worldSize, config, "127.0.0.1");
    ExecutorService threads = Executors.newFixedThreadPool(worldSize);
    try {
      List<Future<T>> running = new ArrayList<>();
      for (int rank = 0; rank < worldSize; rank++) {
        int own = rank;
        Callable<T> work =
            () -> {
              try (CollectiveGroup group = Groups.join(ticket, own, devices.applyAsInt(own))) {
                return runOrAbort(group, body);
              }
            };
        running.add(threads.submit(work));
      }
      List<T> results = new ArrayList<>();
      for (Future<T> rank : running) {
        results.add(rank.get(LIMIT_SECONDS, TimeUnit.SECONDS));
      }
      return results;
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception cause ? cause : e;
    } finally {
      threads.shutdownNow();
    }
  }

  private static <T> T runOrAbort(CollectiveGroup group, Function<CollectiveGroup, T> body) {
    try {
      return body.apply(group);
    } catch (RuntimeException | Error e) {
      group.abort("a rank of the test has failed: " + e);
      throw e;
    }
  }
}
