package io.nvrar;

import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Which algorithm an all-reduce with {@link Algorithm#AUTO} uses, and how the launches of
 * collectives are shaped on GPUs. The first rule that matches wins; if none does, the built-in
 * choice applies. Immutable.
 */
public final class TuningTable {
  /**
   * The largest number of rules in a table. It is limited because the group's ticket carries the
   * table.
   */
  public static final int MAX_RULES = 128;

  private static final TuningTable NONE = new TuningTable(List.of());

  private final List<Rule> rules;

  private TuningTable(List<Rule> rules) {
    this.rules = rules;
  }

  /** The empty table. */
  public static TuningTable none() {
    return NONE;
  }

  /**
   * A table of rules; an earlier rule takes precedence.
   *
   * @throws IllegalArgumentException if there are more than {@link #MAX_RULES}
   */
  public static TuningTable of(List<Rule> rules) {
    if (rules.size() > MAX_RULES) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the tuning table has %d rules, the limit is %d",
              rules.size(),
              MAX_RULES));
    }
    return rules.isEmpty() ? NONE : new TuningTable(List.copyOf(rules));
  }

  /** The rules in order of precedence; unmodifiable. */
  public List<Rule> rules() {
    return rules;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof TuningTable that && rules.equals(that.rules);
  }

  @Override
  public int hashCode() {
    return rules.hashCode();
  }

  /** The number of rules and a digest of them, the same in every process. */
  @Override
  public String toString() {
    return rules.isEmpty()
        ? "none"
        : String.format(Locale.ROOT, "%d rules #%08x", rules.size(), rules.toString().hashCode());
  }

  /** The collectives that a rule can name. */
  public enum Collective {
    /** The one with a choice of algorithms. */
    ALL_REDUCE(1),
    /** See {@link CollectiveGroup}, like those that follow. */
    ALL_GATHER(2),
    /** To all from one. */
    BROADCAST(3),
    /** To one from all. */
    REDUCE(5),
    /** A part to each. */
    REDUCE_SCATTER(6),
    /** A part from each to each. */
    ALL_TO_ALL(7);

    private final int code;

    Collective(int code) {
      this.code = code;
    }

    /** The code of this collective in the native library. */
    public int code() {
      return code;
    }
  }

  /**
   * The shape of a launch on a GPU; 0 leaves a number to the library. The numbers are limits: a
   * launch has no more blocks than its message needs and the GPU can hold, and no more tiles at
   * once than its kernel can. On the CPU, and in fused all-reduces, they mean nothing.
   *
   * @param blocks the most blocks that process data, up to {@link #MAX_BLOCKS}; every launch has
   *     one more, for the headers of the call
   * @param threads the most threads of a block, a multiple of 32 up to 1024
   * @param tiles how many tiles a block processes at once, up to {@link #MAX_TILES}; a tile is 512
   *     bytes, in two-shot of each rank, and takes a warp for each rank, or one warp in one-shot of
   *     2 ranks. At most one of {@code threads} and {@code tiles} is given, because each follows
   *     from the other.
   */
  public record LaunchShape(int blocks, int threads, int tiles) {
    /** The largest number of blocks. */
    public static final int MAX_BLOCKS = 1024;

    /** The largest number of tiles. */
    public static final int MAX_TILES = 32;

    /** The library's choice. */
    public static final LaunchShape BUILT_IN = new LaunchShape(0, 0, 0);

    private static final int WARP = 32;
    private static final int MAX_THREADS = 1024;

    /** Checks the ranges. */
    public LaunchShape {
      requireInRange("blocks", blocks, MAX_BLOCKS);
      requireInRange("threads", threads, MAX_THREADS);
      requireInRange("tiles", tiles, MAX_TILES);
      if (threads % WARP != 0) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "a rule's threads is %d, must be a multiple of %d", threads, WARP));
      }
      if (threads != 0 && tiles != 0) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a rule has both threads (%d) and tiles (%d), and each follows from the other",
                threads,
                tiles));
      }
    }

    private static void requireInRange(String name, int value, int most) {
      if (value < 0 || value > most) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "a rule's %s is %d, must be 0 to %d", name, value, most));
      }
    }
  }

  /**
   * One rule of a table: how a call of at most {@code bytesMax} bytes runs, if its collective, its
   * type and its group match. A call that names its algorithm matches only rules with the same.
   *
   * @param dataType the type of the elements; null for any
   * @param worldSize the number of members; 0 for any
   * @param gpusPerNode the ranks of one node as in {@link GroupConfig#gpusPerNode}; a group in one
   *     node counts as having its world size here; 0 for any
   * @param bytesMax the largest size in bytes of the elements that the call counts, 1 or more; for
   *     an all-reduce that of {@code send}
   * @param algorithm of an all-reduce, not {@link Algorithm#AUTO}; of the other collectives AUTO
   * @param collective the collective
   * @param architecture where the rule was measured, and the only architecture on which it matches:
   *     {@code sm_} with a GPU's compute capability, such as {@code sm_90}, or {@code x86_64} for
   *     the CPU; empty for any. A group whose members have none of the architectures of its table
   *     is not created.
   * @param shape of the launches on a GPU
   */
  public record Rule(
      @Nullable DataType dataType,
      int worldSize,
      int gpusPerNode,
      long bytesMax,
      Algorithm algorithm,
      Collective collective,
      String architecture,
      LaunchShape shape) {
    /** The architecture of CPUs. */
    public static final String X86_64 = "x86_64";

    private static final Pattern GPU = Pattern.compile("sm_[1-9][0-9]{1,2}");
    private static final int ANY_CODE = 0;
    private static final int X86_64_CODE = 1;

    /** Checks the ranges. */
    public Rule {
      Objects.requireNonNull(algorithm, "algorithm");
      Objects.requireNonNull(collective, "collective");
      Objects.requireNonNull(shape, "shape");
      requireAtLeast("worldSize", worldSize, 0);
      requireAtLeast("gpusPerNode", gpusPerNode, 0);
      requireAtLeast("bytesMax", bytesMax, 1);
      if (collective == Collective.ALL_REDUCE && algorithm == Algorithm.AUTO) {
        throw new IllegalArgumentException(
            "a rule's algorithm is AUTO, must be ONE_SHOT, TWO_SHOT or HIERARCHICAL");
      }
      if (collective != Collective.ALL_REDUCE && algorithm != Algorithm.AUTO) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a rule for %s has the algorithm %s, and only ALL_REDUCE has a choice",
                collective,
                algorithm));
      }
      if (!architecture.isEmpty()
          && !architecture.equals(X86_64)
          && !GPU.matcher(architecture).matches()) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a rule's architecture is '%s', must be x86_64, or sm_ with a compute capability such as sm_90",
                architecture));
      }
    }

    /** A rule for an all-reduce on any architecture, with the library's choice of its shape. */
    public Rule(
        @Nullable DataType dataType,
        int worldSize,
        int gpusPerNode,
        long bytesMax,
        Algorithm algorithm) {
      this(
          dataType,
          worldSize,
          gpusPerNode,
          bytesMax,
          algorithm,
          Collective.ALL_REDUCE,
          "",
          LaunchShape.BUILT_IN);
    }

    /** The code of the architecture in the native library; 0 for any. */
    public int architectureCode() {
      if (architecture.isEmpty()) {
        return ANY_CODE;
      }
      return architecture.equals(X86_64)
          ? X86_64_CODE
          : Integer.parseInt(architecture, 3, architecture.length(), 10);
    }

    /** The architecture with a code of the native library. */
    public static String architectureOf(int code) {
      return switch (code) {
        case ANY_CODE -> "";
        case X86_64_CODE -> X86_64;
        default -> "sm_" + code;
      };
    }

    private static void requireAtLeast(String name, long value, int least) {
      if (value < least) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "a rule's %s is %d, must be %d or more", name, value, least));
      }
    }
  }
}
