package io.nvrar.cli.bench;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.util.ArrayList;
import java.util.List;

/**
 * What one process of any implementation is asked for; the same options for {@code nvrar_bench},
 * {@code nvrar_bench_mpi} and a member's JVM.
 *
 * @param iterations calls in a batch, 0 for a number by size
 * @param warmup untimed calls before a batch, -1 for a tenth of them
 * @param repeats batches
 */
record Settings(
    Collective collective,
    int processes,
    int ranksPerNode,
    DataType type,
    ReduceOp op,
    Algorithm algorithm,
    int root,
    long minBytes,
    long maxBytes,
    long factor,
    int iterations,
    int warmup,
    int repeats,
    long ringBytes) {

  // Those of nvrar_bench: the implementations are compared at the same number of calls.
  private static final long BATCH_BYTES = 4 << 20;
  private static final int ITERATIONS_LEAST = 20;
  private static final int ITERATIONS_MOST = 1000;

  int iterationsOf(long bytes) {
    if (iterations > 0) {
      return iterations;
    }
    long wanted = Math.min(BATCH_BYTES / Math.max(bytes, 1), ITERATIONS_MOST);
    return (int) Math.max(wanted, ITERATIONS_LEAST);
  }

  int warmupOf(long bytes) {
    return warmup >= 0 ? warmup : Math.max(2, iterationsOf(bytes) / 10);
  }

  Settings ofSizes(long least, long most, long factorOfSizes) {
    return new Settings(
        collective,
        processes,
        ranksPerNode,
        type,
        op,
        algorithm,
        root,
        least,
        most,
        factorOfSizes,
        iterations,
        warmup,
        repeats,
        ringBytes);
  }

  /** As options; {@link BenchCommand} and native/bench/options.cpp read them. */
  List<String> arguments() {
    List<String> arguments = new ArrayList<>();
    add(arguments, "--collective", Names.of(collective));
    add(arguments, "--processes", processes);
    add(arguments, "--ranks-per-node", ranksPerNode);
    add(arguments, "--type", Names.of(type));
    add(arguments, "--op", Names.of(op));
    add(arguments, "--algorithm", Names.of(algorithm));
    add(arguments, "--root", root);
    add(arguments, "--min", minBytes);
    add(arguments, "--max", maxBytes);
    add(arguments, "--factor", factor);
    if (iterations > 0) {
      add(arguments, "--iters", iterations);
    }
    if (warmup >= 0) {
      add(arguments, "--warmup", warmup);
    }
    add(arguments, "--repeats", repeats);
    if (ringBytes > 0) {
      add(arguments, "--ring-bytes", ringBytes);
    }
    return arguments;
  }

  private static void add(List<String> arguments, String option, Object value) {
    arguments.add(option);
    arguments.add(value.toString());
  }
}
