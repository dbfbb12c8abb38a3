package io.nvrar.tools.bench.setup;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import io.nvrar.tools.bench.BenchCommand;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The settings of a run, which are the same options for {@code nvrar_bench}, {@code
 * nvrar_bench_mpi} and a member's JVM.
 *
 * @param modes the modes to measure on a GPU; {@link Mode#CALLS} on the host
 * @param gpus rank r is on GPU r modulo this one, 0 for a GPU for each
 * @param memory how ranks on GPUs reach each other
 * @param exclusive whether the group has its GPUs for itself
 * @param programmaticLaunch whether calls on GPUs, also those of the study's kernels, are enqueued
 *     with programmatic dependent launch
 * @param links the threads of a rank that look at the links between nodes; 0: nodes are not linked
 * @param iterations calls in a batch, 0 for a number by size
 * @param warmup untimed calls before a batch, -1 for a tenth of them; on a GPU untimed batches, -1
 *     for 3
 * @param repeats batches
 * @param hosts how many hosts the ranks are divided among, which is no option of the programs
 * @param fused the fused all-reduces to measure, whose sizes are numbers of rows; null for the
 *     collective itself at sizes in bytes
 */
public record Settings(
    Backend backend,
    List<Mode> modes,
    int gpus,
    MemoryProvider memory,
    boolean exclusive,
    boolean programmaticLaunch,
    TimedCollective collective,
    int processes,
    int ranksPerNode,
    int links,
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
    long ringBytes,
    int hosts,
    @Nullable FusedRows fused) {

  // The same as in nvrar_bench, so that the implementations are compared at the same number of
  // calls.
  private static final long BATCH_BYTES = 4 << 20;
  private static final int ITERATIONS_LEAST = 20;
  private static final int ITERATIONS_MOST = 1000;
  private static final int GPU_ITERATIONS = 40;
  private static final int GPU_ITERATIONS_LEAST = 5;
  private static final long GPU_BATCH_BYTES = GPU_ITERATIONS * (8L << 20);
  private static final int GPU_WARMUP = 3;

  public int iterationsOf(long bytes) {
    if (iterations > 0) {
      return iterations;
    }
    if (onGpu()) {
      long fitting = Math.min(GPU_BATCH_BYTES / Math.max(bytes, 1), GPU_ITERATIONS);
      return (int) Math.max(fitting, GPU_ITERATIONS_LEAST);
    }
    long wanted = Math.min(BATCH_BYTES / Math.max(bytes, 1), ITERATIONS_MOST);
    return (int) Math.max(wanted, ITERATIONS_LEAST);
  }

  public int warmupOf(long bytes) {
    if (warmup >= 0) {
      return warmup;
    }
    return onGpu() ? GPU_WARMUP : Math.max(2, iterationsOf(bytes) / 10);
  }

  public boolean onGpu() {
    return backend == Backend.CUDA;
  }

  public boolean sharesGpus() {
    return onGpu() && gpus > 0 && gpus < processes;
  }

  /** The ordinal of a rank's GPU. */
  public int gpuOf(int rank) {
    return rank % (gpus > 0 ? gpus : processes);
  }

  public Settings ofSizes(long least, long most, long factorOfSizes) {
    return new Settings(
        backend,
        modes,
        gpus,
        memory,
        exclusive,
        programmaticLaunch,
        collective,
        processes,
        ranksPerNode,
        links,
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
        ringBytes,
        hosts,
        fused);
  }

  /** The smallest size, in bytes. */
  public long leastBytes() {
    if (fused == null) {
      return minBytes;
    }
    long fewestRows = fused.rows().stream().mapToLong(Integer::longValue).min().orElseThrow();
    return fewestRows * fused.hidden() * type.sizeBytes();
  }

  /** What is measured, as the files and tables name it. */
  public String name() {
    return fused != null ? fused.name() : OptionNames.of(collective);
  }

  /** The configuration of a group from Java; that from C++ gets it by {@link #arguments}. */
  public GroupConfig groupConfig() {
    return GroupConfig.builder()
        .backend(backend)
        .cuda(
            cuda -> cuda.memory(memory).exclusive(exclusive).programmaticLaunch(programmaticLaunch))
        .ringBytes(ringBytes)
        .gpusPerNode(ranksPerNode)
        .build();
  }

  /**
   * The settings as command-line options, which {@link BenchCommand} and native/bench/options.cpp
   * parse.
   */
  public List<String> arguments() {
    List<String> arguments = new ArrayList<>();
    if (onGpu()) {
      add(arguments, "--backend", OptionNames.of(backend));
      add(
          arguments,
          "--mode",
          modes.stream().map(OptionNames::of).collect(Collectors.joining(",")));
      if (gpus > 0) {
        add(arguments, "--gpus", gpus);
      }
      add(arguments, "--memory", OptionNames.of(memory));
      if (exclusive) {
        add(arguments, "--exclusive", 1);
      }
      if (programmaticLaunch) {
        add(arguments, "--programmatic-launch", 1);
      }
    }
    add(arguments, "--collective", OptionNames.of(collective));
    add(arguments, "--processes", processes);
    add(arguments, "--ranks-per-node", ranksPerNode);
    if (links > 0) {
      add(arguments, "--links", links);
    }
    add(arguments, "--type", OptionNames.of(type));
    add(arguments, "--op", OptionNames.of(op));
    add(arguments, "--algorithm", OptionNames.of(algorithm));
    add(arguments, "--root", root);
    if (fused == null) {
      add(arguments, "--min", minBytes);
      add(arguments, "--max", maxBytes);
      add(arguments, "--factor", factor);
    } else {
      add(arguments, "--fused", 1);
      add(arguments, "--form", OptionNames.of(fused.form()));
      add(arguments, "--hidden", fused.hidden());
      add(
          arguments,
          "--rows",
          fused.rows().stream().map(String::valueOf).collect(Collectors.joining(",")));
    }
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
