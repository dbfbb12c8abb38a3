package io.nvrar;

import java.io.Serializable;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** A rank's last call, as far as another member knows it. Immutable. */
public final class LastCall implements Serializable {
  private static final long serialVersionUID = 1;

  private final State state;
  private final @Nullable Collective collective;
  private final long sequence;
  private final @Nullable DataType dataType;
  private final long count;
  private final @Nullable Algorithm algorithm;
  private final int peer;
  private final long nanos;
  private final String description;

  /** What is known of a call. */
  public enum State {
    /** The rank has made no call yet. */
    NONE,
    /** The rank is on another host, which has not told of a call. */
    UNKNOWN,
    /** The call is enqueued on a GPU, and not known to have begun. */
    QUEUED,
    /** The call runs. */
    RUNNING,
    /** The call has ended with a result. */
    DONE,
    /** The call has failed. */
    FAILED
  }

  /**
   * Creates a snapshot.
   *
   * @param state see {@link #state}
   * @param collective see {@link #collective}
   * @param sequence see {@link #sequence}
   * @param dataType see {@link #dataType}
   * @param count see {@link #count}
   * @param algorithm see {@link #algorithm}
   * @param peer see {@link #peer}
   * @param nanos see {@link #nanos}
   * @param description the call in words
   */
  public LastCall(
      State state,
      @Nullable Collective collective,
      long sequence,
      @Nullable DataType dataType,
      long count,
      @Nullable Algorithm algorithm,
      int peer,
      long nanos,
      String description) {
    this.state = state;
    this.collective = collective;
    this.sequence = sequence;
    this.dataType = dataType;
    this.count = count;
    this.algorithm = algorithm;
    this.peer = peer;
    this.nanos = nanos;
    this.description = description;
  }

  /** The state of the call. */
  public State state() {
    return state;
  }

  /** The collective; null if there was no call, or if it is not known. */
  public @Nullable Collective collective() {
    return collective;
  }

  /**
   * The number of a collective in its group, or of a send or recv among those from its sender to
   * its receiver; the first is 1; 0 if there was no call, or if it is not known.
   */
  public long sequence() {
    return sequence;
  }

  /** The type of the elements; null if there are none. */
  public @Nullable DataType dataType() {
    return dataType;
  }

  /** The number of elements, as the caller counts them. */
  public long count() {
    return count;
  }

  /** The bytes of these elements. */
  public long bytes() {
    return dataType == null ? 0 : count * dataType.sizeBytes();
  }

  /** The algorithm of an all-reduce; null for other calls. */
  public @Nullable Algorithm algorithm() {
    return algorithm;
  }

  /** The other rank of a send or recv; -1 for other calls. */
  public int peer() {
    return peer;
  }

  /**
   * How long the call took, or how long it has run so far, in nanoseconds; -1 if this is not known,
   * as for calls on other hosts. On a GPU it counts from the moment at which the call was enqueued.
   */
  public long nanos() {
    return nanos;
  }

  /**
   * The call in words, such as {@code allReduce #41 float32[1024] SUM (one-shot), running}; {@code
   * no call yet}; {@code unknown, on another host}.
   */
  @Override
  public String toString() {
    return switch (state) {
      case NONE -> "no call yet";
      case UNKNOWN -> "unknown, on another host";
      default -> description + ", " + state.name().toLowerCase(Locale.ROOT);
    };
  }
}
