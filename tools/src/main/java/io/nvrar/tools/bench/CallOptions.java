package io.nvrar.tools.bench;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** Which collectives {@code nvrar bench} calls, and with which arguments. */
final class CallOptions {
  @Option(
      names = "--collective",
      split = ",",
      converter = OptionNames.Collectives.class,
      defaultValue = "all-reduce",
      paramLabel = "NAME",
      description =
          "all-reduce, reduce, broadcast, all-gather, reduce-scatter, all-to-all, send-receive,"
              + " barrier; several in turn (default: ${DEFAULT-VALUE}).")
  List<TimedCollective> collectives = List.of();

  @Option(names = "--all", description = "Every collective.")
  boolean all;

  @Option(
      names = "--type",
      converter = OptionNames.Types.class,
      paramLabel = "NAME",
      description =
          "float32, float16, bfloat16, float64, int8, uint8, int32, int64 (default: float32; on"
              + " GPUs bfloat16).")
  @Nullable DataType type;

  @Option(
      names = "--op",
      converter = OptionNames.Ops.class,
      defaultValue = "sum",
      paramLabel = "NAME",
      description = "sum, product, max, min, avg (default: ${DEFAULT-VALUE}).")
  ReduceOp op = ReduceOp.SUM;

  @Option(
      names = "--algorithm",
      converter = OptionNames.Algorithms.class,
      defaultValue = "auto",
      paramLabel = "NAME",
      description =
          "The algorithm of all-reduce: auto, one-shot, two-shot, hierarchical (default: ${DEFAULT-VALUE}).")
  Algorithm algorithm = Algorithm.AUTO;

  @Option(
      names = "--root",
      defaultValue = "0",
      paramLabel = "RANK",
      description = "The root of reduce and broadcast (default: ${DEFAULT-VALUE}).")
  int root;

  List<TimedCollective> measured() {
    return all ? List.of(TimedCollective.values()) : collectives;
  }

  DataType type(boolean onGpu) {
    if (type != null) {
      return type;
    }
    return onGpu ? DataType.BFLOAT16 : DataType.FLOAT32;
  }

  /** Whether the selected collective has a fused form. */
  boolean isPlainAllReduce() {
    return !all && collectives.equals(List.of(TimedCollective.ALL_REDUCE)) && op == ReduceOp.SUM;
  }

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check(boolean onGpu) {
    if (op == ReduceOp.AVG && !type(onGpu).isFloat()) {
      throw new IllegalArgumentException(
          "--op avg is for floating types, --type is " + OptionNames.of(type(onGpu)));
    }
  }

  /** Checks the root against the numbers of ranks, which on GPUs takes a look at them. */
  void checkRoot(List<Integer> ranks) {
    int fewest = Collections.min(ranks);
    if (root < 0 || root >= fewest) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "--root is %d, not a rank of %d processes", root, fewest));
    }
  }
}
