package io.nvrar;

import java.io.Serializable;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What one member has called so far of one collective. Immutable. A Ray task may return it. */
public final class CollectiveStatistics implements Serializable {
  private static final long serialVersionUID = 1;

  /** The first bucket has durations of up to 2^10 ns. */
  private static final int SHORTEST_BUCKET_BITS = 10;

  private static final int BUCKETS = 27;

  private final Collective collective;
  private final long failed;
  private final long timedNanos;
  private final long[] calls;
  private final long[] elements;
  private final long[] durations;

  /**
   * Creates a snapshot.
   *
   * @param collective see {@link #collective}
   * @param failed see {@link #failed}
   * @param timedNanos see {@link #timedNanos}
   * @param calls the calls by type, at {@link DataType#code} plus 1; at 0, those without data
   * @param elements the elements of these calls
   * @param durations see {@link #durations}
   */
  public CollectiveStatistics(
      Collective collective,
      long failed,
      long timedNanos,
      long[] calls,
      long[] elements,
      long[] durations) {
    this.collective = collective;
    this.failed = failed;
    this.timedNanos = timedNanos;
    this.calls = calls.clone();
    this.elements = elements.clone();
    this.durations = durations.clone();
  }

  /** The collective. */
  public Collective collective() {
    return collective;
  }

  /** The number of calls that have begun. */
  public long calls() {
    long sum = 0;
    for (long count : calls) {
      sum += count;
    }
    return sum;
  }

  /**
   * The number of calls with elements of a type that have begun.
   *
   * @param type null for calls without data, such as barriers
   */
  public long calls(@Nullable DataType type) {
    return calls[index(type)];
  }

  /**
   * The bytes of the calls with elements of a type, as the caller counts them: for an all-gather
   * those of this rank's part, for a reduce-scatter and an all-to-all those of one rank's part.
   */
  public long bytes(DataType type) {
    return elements[index(type)] * type.sizeBytes();
  }

  /** The number of calls that have failed after they had begun. */
  public long failed() {
    return failed;
  }

  /**
   * The number of calls whose duration is known: those on the CPU that have ended, with a result or
   * not. On a GPU a call returns when it is enqueued, and how long it takes is not known.
   */
  public long timed() {
    long sum = 0;
    for (long count : durations) {
      sum += count;
    }
    return sum;
  }

  /** How long the {@link #timed} calls took together, in nanoseconds. */
  public long timedNanos() {
    return timedNanos;
  }

  /**
   * How many of the {@link #timed} calls took at most {@link #bucketNanos} of each bucket and more
   * than that of the bucket before it.
   */
  public long[] durations() {
    return durations.clone();
  }

  /** The number of buckets of {@link #durations}. */
  public static int buckets() {
    return BUCKETS;
  }

  /**
   * The longest duration in a bucket of {@link #durations}: 1,024 ns in bucket 0, and twice that of
   * the bucket before it in every other. The last bucket has no limit; of it, this is what the
   * limit would be.
   */
  public static long bucketNanos(int bucket) {
    return 1L << (SHORTEST_BUCKET_BITS + bucket);
  }

  private static int index(@Nullable DataType type) {
    return type == null ? 0 : type.code() + 1;
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%s: %d calls, %d failed, %d ms",
        collective.method(),
        calls(),
        failed,
        timedNanos / 1_000_000);
  }
}
