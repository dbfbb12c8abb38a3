package io.nvrar;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What one member knows about its group at one moment. Immutable. A Ray task may return it. */
public final class GroupHealth implements Serializable {
  private static final long serialVersionUID = 1;

  private final @Nullable String failure;

  // An array, because Ray's serializer cannot deserialize Java's immutable lists.
  private final RankHealth[] ranks;

  /**
   * Creates a snapshot.
   *
   * @param failure why the group has failed; null if it has not
   * @param ranks one entry for each rank, in rank order
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

  /** One entry for each rank, in rank order; unmodifiable. */
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
