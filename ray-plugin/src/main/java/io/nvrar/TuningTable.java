package io.nvrar;

import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Which algorithm an all-reduce with {@link Algorithm#AUTO} uses. The first rule that matches wins;
 * if none does, the built-in choice applies. Immutable.
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
          "the tuning table has %d rules, the limit is %d".formatted(rules.size(), MAX_RULES));
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
        : "%d rules #%08x".formatted(rules.size(), rules.toString().hashCode());
  }

  /**
   * One rule of a table: an all-reduce of at most {@code bytesMax} bytes whose type and group match
   * uses the algorithm.
   *
   * @param dataType the type of the elements; null for any
   * @param worldSize the number of members; 0 for any
   * @param gpusPerNode the ranks of one node as in {@link GroupConfig#gpusPerNode}; a group in one
   *     node counts as having its world size here; 0 for any
   * @param bytesMax the largest size of {@code send} in bytes, 1 or more
   * @param algorithm not {@link Algorithm#AUTO}
   */
  public record Rule(
      @Nullable DataType dataType,
      int worldSize,
      int gpusPerNode,
      long bytesMax,
      Algorithm algorithm) {

    /** Checks the ranges. */
    public Rule {
      Objects.requireNonNull(algorithm, "algorithm");
      requireAtLeast("worldSize", worldSize, 0);
      requireAtLeast("gpusPerNode", gpusPerNode, 0);
      requireAtLeast("bytesMax", bytesMax, 1);
      if (algorithm == Algorithm.AUTO) {
        throw new IllegalArgumentException(
            "a rule's algorithm is AUTO, must be ONE_SHOT, TWO_SHOT or HIERARCHICAL");
      }
    }

    private static void requireAtLeast(String name, long value, int least) {
      if (value < least) {
        throw new IllegalArgumentException(
            "a rule's %s is %d, must be %d or more".formatted(name, value, least));
      }
    }
  }
}
