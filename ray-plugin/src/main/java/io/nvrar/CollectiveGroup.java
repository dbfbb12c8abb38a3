package io.nvrar;

/**
 * One member of a group of ranks that communicate by collectives.
 *
 * <p><b>Calls.</b> Every member makes the same collective calls with the same counts, types,
 * operations and roots in the same order. Counts are elements. A call on a {@link DeviceStream} is
 * ordered on that stream; on the CPU backend streams are immediate, so the call returns when this
 * rank's result is complete, and a call made while the stream is capturing is recorded, not run. A
 * difference between the members' calls is a {@link GroupMismatchException} on all of them. A count
 * of 0 moves nothing and waits for nobody, but is a call in that order. No output of a failed call
 * is a result.
 *
 * <p><b>Threads.</b> Any thread may call; one collective of a group runs at a time, and a second
 * thread that enters meanwhile gets an {@link IllegalStateException}. {@link #abort}, {@link
 * #close} and {@link #throwIfFailed} may be called at any time.
 *
 * <p><b>Errors.</b> A bad argument is an {@link IllegalArgumentException} and changes nothing; a
 * closed group is an {@link IllegalStateException}. {@link CollectiveException} and its subclasses
 * are final for the group: after one, every later call throws the same failure, and the only useful
 * call left is {@link #close}.
 */
public interface CollectiveGroup extends AutoCloseable {

  /** The name under which the group was created. */
  String name();

  /** This member's rank, 0 to {@code worldSize() - 1}. */
  int rank();

  /** The number of members. */
  int worldSize();

  /** The backend that this group runs on; never {@link Backend#AUTO}. */
  Backend backend();

  /** The configuration that all members share. */
  GroupConfig config();

  /** The device of this member; allocate the buffers of collectives here. */
  Device device();

  /** The group's own stream, used by the calls that name none. */
  DeviceStream stream();

  /** All-reduce in place by {@link ReduceOp#SUM} on the group's stream. */
  default void allReduce(DeviceBuffer buffer) {
    allReduce(buffer, buffer, ReduceOp.SUM, stream());
  }

  /** All-reduce in place on the group's stream. */
  default void allReduce(DeviceBuffer buffer, ReduceOp op) {
    allReduce(buffer, buffer, op, stream());
  }

  /** All-reduce in place by {@link ReduceOp#SUM} on a stream. */
  default void allReduce(DeviceBuffer buffer, DeviceStream stream) {
    allReduce(buffer, buffer, ReduceOp.SUM, stream);
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives every rank the result, the
   * same bits on all.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv the result, {@code n} elements of the same type; {@code send} itself or memory that
   *     does not overlap it
   * @param op the operation; floats are reduced in float32 in rank order and rounded once
   * @param stream a stream of {@link #device()}
   */
  void allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream);

  /** All-gather on the group's stream. */
  default void allGather(DeviceBuffer send, DeviceBuffer recv) {
    allGather(send, recv, stream());
  }

  /**
   * Gives every rank the values of all ranks, in rank order.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv {@code worldSize() * n} elements of the same type; rank r's values begin at {@code
   *     r * n}. {@code send} may be this rank's own part of it, and may not overlap it otherwise
   * @param stream a stream of {@link #device()}
   */
  void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream);

  /** Broadcast in place on the group's stream. */
  default void broadcast(DeviceBuffer buffer, int root) {
    broadcast(buffer, buffer, root, stream());
  }

  /**
   * Gives every rank the values of one.
   *
   * @param send the values, {@code n} elements; read on the root only
   * @param recv {@code n} elements of the same type; {@code send} itself or memory that does not
   *     overlap it
   * @param root the rank whose values are sent
   * @param stream a stream of {@link #device()}
   */
  void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream stream);

  /** Waits on the group's stream until all ranks have entered. */
  default void barrier() {
    barrier(stream());
  }

  /** Completes, on a stream, when all ranks have entered. */
  void barrier(DeviceStream stream);

  /**
   * Throws the failure of this group if there is one. For users of raw streams, whose
   * synchronisation does not look.
   */
  void throwIfFailed();

  /**
   * Ends the group for all members: running calls leave and throw, later ones throw at once. Never
   * blocks; any thread.
   *
   * @param reason one clause for the other members' messages
   */
  void abort(String reason);

  /** Whether {@link #close} was called on this member or the group was destroyed. */
  boolean isClosed();

  /**
   * Leaves the group in order: waits, at most the join timeout, until all members close, and frees
   * this member's resources. A failed group is freed without waiting. Idempotent; throws nothing of
   * the group's failure.
   */
  @Override
  void close();
}
