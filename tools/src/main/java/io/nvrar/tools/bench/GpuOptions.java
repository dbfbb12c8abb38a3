package io.nvrar.tools.bench;

import io.nvrar.MemoryProvider;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import java.util.List;
import picocli.CommandLine.Option;

/** How {@code nvrar bench} uses GPUs. */
final class GpuOptions {
  @Option(
      names = "--mode",
      split = ",",
      converter = OptionNames.Modes.class,
      paramLabel = "NAME",
      description =
          "On GPUs: graph, eager, graph-compute, eager-compute, graph-cold: a batch in a CUDA graph"
              + " or call by call, bare, with a kernel of about 1 us after each call, or with one"
              + " before each call that takes everything else out of the L2 cache; that kernel's own"
              + " time is subtracted (default: all in turn).")
  List<Mode> modes = Mode.OF_GPUS;

  @Option(
      names = "--gpus",
      defaultValue = "0",
      paramLabel = "N",
      description = "On GPUs: rank r is on GPU r mod N (default: each has its own).")
  int gpus;

  @Option(
      names = "--memory",
      converter = OptionNames.Memories.class,
      defaultValue = "auto",
      paramLabel = "NAME",
      description =
          "On GPUs: how the ranks reach each other, auto, nvshmem, ipc (default:"
              + " ${DEFAULT-VALUE}).")
  MemoryProvider memory = MemoryProvider.AUTO;

  @Option(
      names = "--exclusive",
      defaultValue = "0",
      paramLabel = "0|1",
      description = "On GPUs: 1: the group has its GPUs for itself (default: ${DEFAULT-VALUE}).")
  int exclusive;

  @Option(
      names = "--programmatic-launch",
      defaultValue = "0",
      paramLabel = "0|1",
      description =
          "On GPUs: 1: calls, the study's kernels, and the kernel of the compute modes are enqueued"
              + " with programmatic dependent launch (default: ${DEFAULT-VALUE}).")
  int programmaticLaunch;

  List<Mode> modes(boolean onGpu) {
    return onGpu ? modes : List.of(Mode.CALLS);
  }

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check(boolean onGpu) {
    if (!onGpu
        && (gpus != 0
            || memory != MemoryProvider.AUTO
            || exclusive != 0
            || programmaticLaunch != 0)) {
      throw new IllegalArgumentException(
          "--gpus, --memory, --exclusive and --programmatic-launch are for --backend cuda");
    }
    Limits.require(gpus, "--gpus", 0, Groups.MAX_NODE_SIZE);
    Limits.require(exclusive, "--exclusive", 0, 1);
    Limits.require(programmaticLaunch, "--programmatic-launch", 0, 1);
  }
}
