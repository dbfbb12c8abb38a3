package io.nvrar.it.soak.plan;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.Shape;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One group of a round.
 *
 * @param name its name
 * @param shape its ranks and nodes
 * @param config its configuration
 * @param workers the worker process of each rank
 * @param hosts the host of each rank
 * @param calls the calls of every rank, in order
 * @param split how it is split, if it is
 * @param fault its fault
 */
public record GroupPlan(
    String name,
    Shape shape,
    GroupConfig config,
    List<Integer> workers,
    List<Integer> hosts,
    List<CallSpec> calls,
    @Nullable SplitPlan split,
    Fault fault) {

  public int worldSize() {
    return shape.worldSize();
  }

  /** Whether its members are on several hosts, so that there are links between them. */
  public boolean isLinked() {
    return hosts.stream().distinct().count() > 1;
  }

  /** Whether it is on GPUs; then each rank is on a host of its own and on that host's GPU. */
  public boolean isOnGpus() {
    return config.backend() == Backend.CUDA;
  }

  /** The shape of the group that a rank joins by the split, of the given old ranks. */
  public Shape shapeOfSplit(List<Integer> oldRanks, int ranksPerNode) {
    return isLinked()
        ? Shape.ofHosts(oldRanks.stream().map(hosts::get).toList())
        : Shape.divided(oldRanks.size(), ranksPerNode);
  }

  /** The ranks that a worker process holds. */
  public List<Integer> ranksOf(int worker) {
    return IntStream.range(0, worldSize()).filter(r -> workers.get(r) == worker).boxed().toList();
  }

  /** The worker process of the fault's rank. */
  public int faultyWorker() {
    return workers.get(fault.rank());
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%s: %d ranks on workers %s of hosts %s, %d calls, %s, %s",
        name,
        worldSize(),
        workers,
        hosts,
        calls.size(),
        split == null ? "no split" : split,
        config);
  }
}
