package io.nvrar;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What one member knows about its group at one moment. Immutable; may be returned from a Ray task.
 */
public final class GroupHealth implements Serializable {
  private static final long serialVersionUID = 1;

  private final @Nullable String failure;

  // An array, because Ray's serializer does not bring Java's immutable lists back.
  private final RankHealth[] ranks;

  /**
   * What a member knows.
   *
   * @param failure why the group has failed; null if it has not
   * @param ranks in rank order
   */
  public GroupHealth(@Nullable String failure, List<RankHealth> ranks) {
    this.failure = failure;
    this.ranks = ranks.toArray(RankHealth[]::new);
  }

  /** Whether this member knows of no failure. */
  public boolean healthy() {
    return failure == null;
  }

  /** Why the group has failed; null if it has not. */
  public @Nullable String failure() {
    return failure;
  }

  /** All ranks, in rank order; cannot be modified. */
  public List<RankHealth> ranks() {
    return List.of(ranks);
  }

  /** One line on the group, then one on each rank. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(failure == null ? "healthy" : "failed: " + failure);
    for (RankHealth rank : ranks) {
      text.append(System.lineSeparator()).append("  ").append(rank);
    }
    return text.toString();
  }
}
