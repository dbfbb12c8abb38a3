package io.nvrar.tools.bench;

import io.nvrar.tools.bench.setup.OptionNames;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** The sizes that {@code nvrar bench} measures, and how many calls of each. */
final class SizeOptions {
  private static final long LEAST_BYTES = 8;
  private static final long MOST_BYTES = 4 << 20;
  private static final int FACTOR = 2;
  private static final int REPEATS = 5;
  private static final long GPU_LEAST_BYTES = 1 << 10;
  private static final long GPU_MOST_BYTES = 8 << 20;
  private static final int GPU_REPEATS = 30;

  @Option(
      names = "--min",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "Smallest size, such as 64, 8K, 4M (default: 8; on GPUs 1K).")
  @Nullable Long minBytes;

  @Option(
      names = "--max",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "Largest size (default: 4M; on GPUs 8M).")
  @Nullable Long maxBytes;

  @Option(
      names = "--factor",
      paramLabel = "N",
      description = "The factor from one size to the next, 2 to 1024 (default: 2).")
  @Nullable Integer factor;

  @Option(
      names = "--iters",
      defaultValue = "0",
      paramLabel = "N",
      description =
          "Calls in a timed batch (default: by size, 20 to 1000; on GPUs 40,"
              + " beyond 8M fewer, to 5).")
  int iterations;

  @Option(
      names = "--warmup",
      defaultValue = "-1",
      paramLabel = "N",
      description =
          "Untimed calls before each batch (default: a tenth of --iters); on GPUs untimed batches"
              + " (default: 3); 0 also leaves out Java's 30,000 for the JVM's compiler.")
  int warmup;

  @Option(
      names = "--repeats",
      paramLabel = "N",
      description = "Batches of a round (default: 5; on GPUs 30).")
  @Nullable Integer repeats;

  long least(boolean onGpu) {
    if (minBytes != null) {
      return minBytes;
    }
    return onGpu ? GPU_LEAST_BYTES : LEAST_BYTES;
  }

  long most(boolean onGpu) {
    if (maxBytes != null) {
      return maxBytes;
    }
    return onGpu ? GPU_MOST_BYTES : MOST_BYTES;
  }

  int factor() {
    return factor == null ? FACTOR : factor;
  }

  int repeats(boolean onGpu) {
    if (repeats != null) {
      return repeats;
    }
    return onGpu ? GPU_REPEATS : REPEATS;
  }

  /** Whether the sizes in bytes are named. */
  boolean areGiven() {
    return minBytes != null || maxBytes != null || factor != null;
  }

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check(boolean onGpu) {
    if (least(onGpu) > most(onGpu)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "--min is %d bytes, more than --max, %d", least(onGpu), most(onGpu)));
    }
    Limits.require(factor(), "--factor", 2, 1024);
    Limits.require(iterations, "--iters", 0, 1_000_000);
    Limits.require(warmup, "--warmup", -1, 1_000_000);
    Limits.require(repeats(onGpu), "--repeats", 1, 1000);
  }
}
