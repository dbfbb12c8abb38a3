package io.nvrar.tools.bench.setup;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Settings of all-reduces, of which a test names what it is about. */
public final class TestSettings {
  private TestSettings() {}

  /** Sums of float32 on the host. */
  public static Settings onHost(
      int processes, long least, long most, int factor, int iterations, int warmup, int repeats) {
    return of(
        Backend.CPU,
        List.of(Mode.CALLS),
        DataType.FLOAT32,
        processes,
        new long[] {least, most, factor},
        new int[] {iterations, warmup, repeats});
  }

  /** Sums of bfloat16 on GPUs, from 1 to 4 KiB. */
  public static Settings onGpus(int processes, int iterations, int warmup, int repeats) {
    return onGpus(Mode.OF_GPUS, processes, iterations, warmup, repeats);
  }

  public static Settings onGpus(
      List<Mode> modes, int processes, int iterations, int warmup, int repeats) {
    return of(
        Backend.CUDA,
        modes,
        DataType.BFLOAT16,
        processes,
        new long[] {1024, 4096, 4},
        new int[] {iterations, warmup, repeats});
  }

  /** The same with another collective. */
  public static Settings of(Settings one, TimedCollective collective) {
    return of(one, collective, one.programmaticLaunch(), one.fused());
  }

  /** The same with programmatic dependent launch, or without. */
  public static Settings withProgrammaticLaunch(Settings one, boolean programmatic) {
    return of(one, one.collective(), programmatic, one.fused());
  }

  /** The same of fused all-reduces. */
  public static Settings withFused(Settings one, FusedRows fused) {
    return of(one, one.collective(), one.programmaticLaunch(), fused);
  }

  private static Settings of(
      Settings one, TimedCollective collective, boolean programmatic, @Nullable FusedRows fused) {
    return new Settings(
        one.backend(),
        one.modes(),
        one.gpus(),
        one.memory(),
        one.exclusive(),
        programmatic,
        collective,
        one.processes(),
        one.ranksPerNode(),
        one.links(),
        one.type(),
        one.op(),
        one.algorithm(),
        one.root(),
        one.minBytes(),
        one.maxBytes(),
        one.factor(),
        one.iterations(),
        one.warmup(),
        one.repeats(),
        one.ringBytes(),
        one.hosts(),
        fused);
  }

  private static Settings of(
      Backend backend, List<Mode> modes, DataType type, int processes, long[] sizes, int[] counts) {
    return new Settings(
        backend,
        modes,
        0,
        MemoryProvider.AUTO,
        false,
        false,
        TimedCollective.ALL_REDUCE,
        processes,
        0,
        0,
        type,
        ReduceOp.SUM,
        Algorithm.AUTO,
        0,
        sizes[0],
        sizes[1],
        sizes[2],
        counts[0],
        counts[1],
        counts[2],
        0,
        1,
        null);
  }
}
