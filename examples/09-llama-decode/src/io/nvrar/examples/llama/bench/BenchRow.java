package io.nvrar.examples.llama.bench;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The result of a cell.
 *
 * @param implementation nvrar, or who else made the step
 * @param allReduce whose all-reduces it has
 * @param ranks GPUs
 * @param batch sequences
 * @param context positions that the last step of a block attends to, its own included
 * @param millis of a step: the median of the blocks, of the ranks the slowest
 * @param leastMillis of the fastest block
 * @param mostMillis of the slowest block
 * @param tokensPerSecond of all sequences together
 * @param floorMillis see {@link StepFloor}
 * @param percentOfFloor of the floor in the time of a step
 * @param withoutMillis of a step without its all-reduces; null in a world of one, and where the
 *     all-reduces are not the step's own
 * @param allReducePercent by how much of the step the all-reduces make it longer; null as that is
 * @param problem what is wrong with what was computed; empty if nothing is
 */
public record BenchRow(
    String implementation,
    String allReduce,
    int ranks,
    int batch,
    int context,
    double millis,
    double leastMillis,
    double mostMillis,
    double tokensPerSecond,
    double floorMillis,
    double percentOfFloor,
    @Nullable Double withoutMillis,
    @Nullable Double allReducePercent,
    String problem) {

  /** Us. */
  public static final String NVRAR = "nvrar";

  /** Of our steps with our all-reduces, if their tokens are drawn. */
  private static final String DRAWING = "nvrar, drawing";

  /** Whose all-reduces our steps may have instead of ours. */
  public static final String NCCL = "nccl";

  private static final double SECOND_MILLIS = 1e3;

  /**
   * Of blocks, on each of which the slowest rank counts.
   *
   * @param allReduce whose all-reduces the steps have
   */
  public static BenchRow of(
      BenchCell cell, String allReduce, List<RankTimes> ranks, StepFloor floor) {
    double[] blocks = slowest(ranks.stream().map(RankTimes::stepMillis).toList());
    double[] without = slowest(ranks.stream().map(RankTimes::withoutMillis).toList());
    return of(
        NVRAR,
        allReduce,
        ranks.size(),
        cell.batch(),
        cell.context(),
        blocks,
        without.length == 0 ? null : StepBench.median(without),
        floor.millis(),
        problem(ranks));
  }

  /**
   * Somebody else's row of the same cell.
   *
   * @param blocks milliseconds of a step in each, on the slowest rank
   * @param without milliseconds of a step without all-reduces, if it was measured
   */
  BenchRow of(
      String whose,
      String whoseAllReduce,
      double[] blocks,
      @Nullable Double without,
      String wrong) {
    return of(whose, whoseAllReduce, ranks, batch, context, blocks, without, floorMillis, wrong);
  }

  private static BenchRow of(
      String implementation,
      String allReduce,
      int ranks,
      int batch,
      int context,
      double[] blocks,
      @Nullable Double without,
      double floorMillis,
      String problem) {
    double millis = StepBench.median(blocks);
    return new BenchRow(
        implementation,
        allReduce,
        ranks,
        batch,
        context,
        millis,
        Arrays.stream(blocks).min().orElseThrow(),
        Arrays.stream(blocks).max().orElseThrow(),
        batch * SECOND_MILLIS / millis,
        floorMillis,
        100 * floorMillis / millis,
        without,
        without == null ? null : 100 * (millis - without) / millis,
        problem);
  }

  /** The same, of steps whose tokens are drawn. */
  public BenchRow ofDrawing() {
    return new BenchRow(
        implementation,
        DRAWING,
        ranks,
        batch,
        context,
        millis,
        leastMillis,
        mostMillis,
        tokensPerSecond,
        floorMillis,
        percentOfFloor,
        withoutMillis,
        allReducePercent,
        problem);
  }

  /** Whether this is somebody else's whole step, right and of the same batch and context. */
  boolean isBeside(BenchRow ours) {
    return !isOurs() && batch == ours.batch && context == ours.context && problem.isEmpty();
  }

  /** Whether these are our steps with NCCL's all-reduces. */
  boolean isWithNccl() {
    return isOurs() && allReduce.equals(NCCL);
  }

  /** Whether these are our steps with our all-reduces, whose tokens are the greatest. */
  boolean isWhollyOurs() {
    return isOurs() && allReduce.equals(NVRAR);
  }

  /** Whether these are our steps with NCCL's all-reduces, in the cell of another row. */
  boolean isWithNcclBeside(BenchRow ours) {
    return isOurs() && allReduce.equals(NCCL) && batch == ours.batch && context == ours.context;
  }

  /** Whether these are our steps. */
  public boolean isOurs() {
    return implementation.equals(NVRAR);
  }

  private static double[] slowest(List<double[]> ranks) {
    double[] slowest = ranks.get(0).clone();
    for (double[] rank : ranks) {
      Arrays.setAll(slowest, i -> Math.max(slowest[i], rank[i]));
    }
    return slowest;
  }

  private static String problem(List<RankTimes> ranks) {
    for (RankTimes rank : ranks) {
      if (!rank.problem().isEmpty()) {
        return rank.problem();
      }
      if (!Arrays.equals(rank.tokens(), ranks.get(0).tokens())) {
        return "the ranks have different tokens";
      }
    }
    return "";
  }
}
