package io.nvrar.examples.training;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Ranks that are threads of the test's process. */
final class Ranks {
  private static final int LIMIT_SECONDS = 60;

  private Ranks() {}

  /** Runs the same work on each rank; returns what each has returned. */
  static <R> List<R> run(int size, Function<CollectiveGroup, R> work) throws Exception {
    GroupTicket ticket =
        Groups.createTicket(
            "training", size, GroupConfig.builder().backend(Backend.CPU).build(), "127.0.0.1");
    ExecutorService threads = Executors.newFixedThreadPool(size);
    try {
      List<Future<R>> calls = new ArrayList<>();
      for (int rank = 0; rank < size; rank++) {
        int mine = rank;
        calls.add(
            threads.submit(
                () -> {
                  try (CollectiveGroup group = Groups.join(ticket, mine)) {
                    return work.apply(group);
                  }
                }));
      }
      List<R> results = new ArrayList<>();
      for (Future<R> call : calls) {
        results.add(call.get(LIMIT_SECONDS, TimeUnit.SECONDS));
      }
      return results;
    } finally {
      threads.shutdownNow();
    }
  }
}
