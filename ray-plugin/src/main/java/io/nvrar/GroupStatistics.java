package io.nvrar;

import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Locale;

/**
 * What one member has called and waited for since its group was created. The numbers only grow.
 * Immutable. A Ray task may return it.
 */
public final class GroupStatistics implements Serializable {
  private static final long serialVersionUID = 1;

  private final long ageNanos;

  // Arrays, because Ray's serializer cannot deserialize Java's immutable lists.
  private final CollectiveStatistics[] collectives;
  private final long[] waits;
  private final long[] waitNanos;

  /**
   * Creates a snapshot.
   *
   * @param age see {@link #age}
   * @param collectives see {@link #collectives}
   * @param waits {@link #waits(int)} of each rank
   * @param waitNanos {@link #waitNanos(int)} of each rank
   */
  public GroupStatistics(
      Duration age, List<CollectiveStatistics> collectives, long[] waits, long[] waitNanos) {
    ageNanos = age.toNanos();
    this.collectives = collectives.toArray(CollectiveStatistics[]::new);
    this.waits = waits.clone();
    this.waitNanos = waitNanos.clone();
  }

  /** How long this member has been in the group; of a closed one, until this was asked. */
  public Duration age() {
    return Duration.ofNanos(ageNanos);
  }

  /** The collectives that this member has called at least once, in the order of their codes. */
  public List<CollectiveStatistics> collectives() {
    return List.of(collectives);
  }

  /**
   * How often this member has waited for a rank longer than the moment for which it spins (about 20
   * us where every rank has a core). A wait for any of several ranks counts for each of them.
   *
   * @return 0 for this member's own rank, and on GPUs, whose kernels do the waiting
   */
  public long waits(int rank) {
    return waits[rank];
  }

  /** How long these {@link #waits(int)} took together, in nanoseconds. */
  public long waitNanos(int rank) {
    return waitNanos[rank];
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%d s old; %s", age().toSeconds(), collectives());
  }
}
