package io.nvrar.tools.bench;

import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.setup.OptionNames;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** How many ranks {@code nvrar bench} has, where they are, and how large their rings are. */
final class RankOptions {
  @Option(
      names = {"--processes", "--ranks"},
      split = ",",
      paramLabel = "N",
      description =
          "Ranks, each a process, 1 to 8; several in turn (default: 2,4; one for each host of"
              + " --hosts; on GPUs one for each that is visible).")
  @Nullable List<Integer> processes;

  @Option(
      names = "--ranks-per-node",
      defaultValue = "0",
      paramLabel = "N",
      description = "Simulate nodes of this many ranks (default: all in one).")
  int ranksPerNode;

  @Option(
      names = "--links",
      defaultValue = "0",
      paramLabel = "N",
      description =
          "Link the nodes of --ranks-per-node by TCP over loopback, as hosts are, on GPUs by N"
              + " threads of each rank (1, 2 or 4); NCCL then uses sockets (default: 0, not"
              + " linked).")
  int links;

  @Option(
      names = "--hosts",
      paramLabel = "N",
      description =
          "Between the containers of so many hosts, which bin/nvrar starts by Docker, over their"
              + " network, with the ranks divided among them (default: on this host).")
  @Nullable Integer hosts;

  @Option(
      names = "--ring-bytes",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "The group's ringBytes (default: the library's).")
  @Nullable Long ringBytes;

  /** The numbers of ranks, each of which is measured. */
  List<Integer> counts(boolean onGpu) {
    if (processes != null) {
      return processes;
    }
    if (hosts != null) {
      return List.of(hosts);
    }
    return onGpu ? List.of(Math.min(CudaDevices.count(), Groups.MAX_NODE_SIZE)) : List.of(2, 4);
  }

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check(boolean onGpu) {
    if (processes != null) {
      for (int count : processes) {
        Limits.require(count, "--processes", 1, Groups.MAX_NODE_SIZE);
      }
    }
    Limits.require(ranksPerNode, "--ranks-per-node", 0, Groups.MAX_NODE_SIZE);
    if (links != 0 && links != 1 && links != 2 && links != 4) {
      throw new IllegalArgumentException("--links is " + links + ", must be 0, 1, 2 or 4");
    }
    if (links > 0 && hosts != null) {
      throw new IllegalArgumentException("--links is for nodes of this host, not for --hosts");
    }
    if (links > 0 && ranksPerNode == 0) {
      throw new IllegalArgumentException("--links needs --ranks-per-node, which makes the nodes");
    }
    if (hosts == null) {
      return;
    }
    Limits.require(hosts, "--hosts", 2, Groups.MAX_NODE_SIZE);
    if (onGpu) {
      throw new IllegalArgumentException("--hosts is for --backend cpu");
    }
    for (int count : counts(false)) {
      checkEveryHostHasARank(count, hosts);
    }
    if (ProgramRun.onHosts() == null) {
      throw new IllegalArgumentException(
          "--hosts needs the containers that bin/nvrar bench starts");
    }
  }

  /** The ranks are divided as bin/lib/on-hosts divides them: the first hosts have the most. */
  private static void checkEveryHostHasARank(int ranks, int among) {
    int onEach = (ranks + among - 1) / among;
    int without = among - (ranks + onEach - 1) / onEach;
    if (without > 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "--processes is %d, which leaves %s of %d hosts without a rank",
              ranks,
              without == 1 ? "one" : "" + without,
              among));
    }
  }
}
