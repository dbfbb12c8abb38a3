package io.nvrar;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One member of a group of ranks that communicate by collectives.
 *
 * <p><b>Calls.</b> Every member makes the same collective calls with the same counts, types,
 * operations and roots in the same order. Counts are elements. A call on a {@link DeviceStream} is
 * ordered on that stream. On a GPU it returns when it is enqueued, and its result is complete when
 * the stream has executed it; all calls of a group need one order there, by one stream or by events
 * between streams. On the CPU backend streams are immediate, so the call returns when this rank's
 * result is complete. A call made while the stream is capturing is recorded, not run. A difference
 * between the members' calls is a {@link GroupMismatchException} on all of them. A count of 0 moves
 * nothing and waits for nobody, but is a call in that order. No output of a failed call is a
 * result. {@link #send}, {@link #recv}, {@link #sendReceive} and {@link #batch} stand outside that
 * order: they concern the ranks that they name, and the sends from one rank to another meet that
 * rank's recvs in the order of both.
 *
 * <p><b>Reductions</b> have one order of operands, which depends on the world size and {@link
 * GroupConfig#gpusPerNode} alone, so every rank and every {@link Algorithm} gives the same bits.
 * 16- and 32-bit floats are reduced in float32, float64 in float64, and rounded once; integers wrap
 * in their own width.
 *
 * <p><b>Threads.</b> Any thread may call; one call of a group runs at a time, and a second thread
 * that enters meanwhile gets an {@link IllegalStateException}. {@link #abort(String)}, {@link
 * #close}, {@link #failure}, {@link #throwIfFailed} and {@link #health} may be called at any time.
 *
 * <p><b>Errors.</b> What fails on a GPU is thrown by the next call, and by whatever waits for the
 * stream ({@link DeviceStream}). A bad argument is an {@link IllegalArgumentException} and changes
 * nothing; a closed group is an {@link IllegalStateException}. {@link CollectiveException} and its
 * subclasses are final for the group: after one, every later call throws the same failure, and the
 * only useful call left is {@link #close}. {@link #split} and {@link #newGroup} alone may throw one
 * that is the new group's, and leave this one whole.
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

  /**
   * The group's own stream, used by the calls that name none. {@link #close} closes it. So does the
   * end of a group that its driver has destroyed, once all that was submitted there has been
   * executed; waiting for the stream still throws what has failed there.
   */
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

  /** All-reduce in place on a stream. */
  default void allReduce(DeviceBuffer buffer, ReduceOp op, DeviceStream stream) {
    allReduce(buffer, buffer, op, stream);
  }

  /** All-reduce by the algorithm of the tuning table or the size. */
  default void allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream) {
    allReduce(send, recv, op, Algorithm.AUTO, stream);
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives every rank the result, the
   * same bits on all.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv the result, {@code n} elements of the same type; {@code send} itself or memory that
   *     does not overlap it
   * @param op the operation; {@link ReduceOp#AVG} for floats only
   * @param algorithm the same on all ranks; {@link Algorithm#HIERARCHICAL} needs a group of several
   *     nodes
   * @param stream a stream of {@link #device()}
   */
  void allReduce(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream stream);

  /** Reduce in place by {@link ReduceOp#SUM} on the group's stream. */
  default void reduce(DeviceBuffer buffer, int root) {
    reduce(buffer, ReduceOp.SUM, root);
  }

  /**
   * Reduce on the group's stream, in place: on other ranks than the root the buffer is only read.
   */
  default void reduce(DeviceBuffer buffer, ReduceOp op, int root) {
    reduce(buffer, buffer, op, root, stream());
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives one rank the result.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv the result, {@code n} elements of the same type, on the root: {@code send} itself
   *     or memory that does not overlap it. Not looked at elsewhere and may be null there
   * @param op the operation; {@link ReduceOp#AVG} for floats only
   * @param root the rank that receives the result
   * @param stream a stream of {@link #device()}
   */
  void reduce(
      DeviceBuffer send, @Nullable DeviceBuffer recv, ReduceOp op, int root, DeviceStream stream);

  /** Reduce-scatter by {@link ReduceOp#SUM} on the group's stream. */
  default void reduceScatter(DeviceBuffer send, DeviceBuffer recv) {
    reduceScatter(send, recv, ReduceOp.SUM);
  }

  /** Reduce-scatter on the group's stream. */
  default void reduceScatter(DeviceBuffer send, DeviceBuffer recv, ReduceOp op) {
    reduceScatter(send, recv, op, stream());
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives every rank its part.
   *
   * @param send this rank's values, {@code worldSize() * n} elements
   * @param recv {@code n} elements of the same type: rank r's are those of the result from {@code r
   *     * n}. It may be this rank's own part of {@code send}, and may not overlap it otherwise
   * @param op the operation; {@link ReduceOp#AVG} for floats only
   * @param stream a stream of {@link #device()}
   */
  void reduceScatter(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream);

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

  /** All-to-all in place on the group's stream. */
  default void allToAll(DeviceBuffer buffer) {
    allToAll(buffer, buffer);
  }

  /** All-to-all on the group's stream. */
  default void allToAll(DeviceBuffer send, DeviceBuffer recv) {
    allToAll(send, recv, stream());
  }

  /**
   * Gives every rank a part of every rank's values.
   *
   * @param send {@code worldSize() * n} elements; those from {@code r * n} go to rank r
   * @param recv as many elements of the same type; those from {@code r * n} come from rank r.
   *     {@code send} itself or memory that does not overlap it
   * @param stream a stream of {@link #device()}
   */
  void allToAll(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream);

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

  /** Sends on the group's stream, or on the batch's. */
  void send(DeviceBuffer buffer, int peer);

  /**
   * Sends a buffer to one rank, which receives it. Completes when the buffer may be written again.
   * A small buffer waits in the receiver's ring for its {@link #recv}, a larger one for the recv
   * itself, so two ranks that first send to each other and then receive may wait in vain: {@link
   * #sendReceive} and {@link #batch} never do.
   *
   * @param buffer the values, as many and of the type that the peer's {@link #recv} names: else it
   *     is a {@link GroupMismatchException} on all ranks
   * @param peer another rank; this rank itself only in a {@link #batch} that receives it too
   * @param stream a stream of {@link #device()}; in a batch, that of the batch
   */
  void send(DeviceBuffer buffer, int peer, DeviceStream stream);

  /** Receives on the group's stream, or on the batch's. */
  void recv(DeviceBuffer buffer, int peer);

  /**
   * Receives a buffer from one rank, which sends it.
   *
   * @param buffer where the values go, as many and of the type that the peer's {@link #send} names:
   *     else it is a {@link GroupMismatchException} on all ranks
   * @param peer another rank; this rank itself only in a {@link #batch} that sends it too
   * @param stream a stream of {@link #device()}; in a batch, that of the batch
   */
  void recv(DeviceBuffer buffer, int peer, DeviceStream stream);

  /** Sends and receives on the group's stream, or on the batch's. */
  void sendReceive(DeviceBuffer send, int destination, DeviceBuffer recv, int source);

  /**
   * Sends to one rank while it receives from one, such as in a ring, where each rank's {@link
   * #send} followed by its {@link #recv} could wait for the other.
   *
   * @param send the values for {@code destination}
   * @param destination any rank; this rank itself only if {@code source} is too
   * @param recv where the values of {@code source} go; may not overlap {@code send}
   * @param source any rank
   * @param stream a stream of {@link #device()}; in a batch, that of the batch
   */
  void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream stream);

  /** A batch on the group's stream. */
  default void batch(Runnable transfers) {
    batch(transfers, stream());
  }

  /**
   * Runs many transfers together: what {@code transfers} sends and receives on this thread is
   * collected and run at its end, so that none waits for one that was named after it. Transfers to
   * one peer, and from one peer, keep their order; nothing else is ordered. No buffer that is
   * received into may overlap another of the batch.
   *
   * @param transfers calls {@link #send}, {@link #recv} and {@link #sendReceive} of this group, and
   *     no other, nor by a graph: they are an {@link IllegalStateException}. If it throws, nothing
   *     is sent or received, and the exception goes on
   * @param stream a stream of {@link #device()}; while it captures, the batch is recorded as one
   */
  void batch(Runnable transfers, DeviceStream stream);

  /**
   * Makes new groups of this group's members: one of all that name the same color. Every member
   * calls it, in the same order among the group's calls; blocks until the new group exists.
   *
   * <p>The new group is named after this one and the color, {@code tp/0}; of a name that would have
   * more than 128 characters the middle is left out, {@code ...}. It has this one's configuration,
   * except that {@link GroupConfig#gpusPerNode} follows from where its members stand: where each of
   * several nodes has one run of them, all of one length but for the last, which may be shorter, it
   * is that length, else 0. It is closed by itself and lives on when this one is closed or fails.
   * Only what the driver does to this group, and the loss of the driver or of this group's rank 0,
   * ends it too.
   *
   * <p>Members that do not come within the join timeout, or come at different points of their
   * calls, fail this group. What goes wrong later, as the new group is made, fails the split on its
   * members and leaves this group whole: {@link #throwIfFailed} tells whether this one has failed.
   *
   * @param color 0 or more; negative for a member that joins no new group
   * @param key decides the ranks in the new group: ascending, equal keys by the rank in this one
   * @return this member of the new group; null if {@code color} is negative
   * @throws CollectiveTimeoutException if a member did not call split within the join timeout,
   *     which fails this group; or did not join the new group within as much again, which does not
   * @throws GroupMismatchException if members call it at different points, which fails this group
   * @throws CollectiveException if this group fails or has failed; or if the new one could not be
   *     made, or lost a member while it was
   * @throws IllegalStateException if this group is closed, or another split of it runs here
   */
  @Nullable CollectiveGroup split(int color, int key);

  /**
   * Makes a new group of some members of this one. Every member calls it with the same ranks, in
   * the same order among the group's calls, also the members that are not named; blocks until the
   * new group exists, or until all members have called it.
   *
   * <p>It is a {@link #split}, and everything that is said there of the new group, its life and its
   * failures holds here. It is named after this group and the ranks: {@code tp/3,1}.
   *
   * @param ranks the members of the new group by their rank in this one: the first named is rank 0
   *     there, the second rank 1, and so on
   * @return this member of the new group; null if this rank is not named
   * @throws IllegalArgumentException if no rank is named, or one twice, or one that this group does
   *     not have; then nothing was begun, and this member may call again
   * @throws GroupMismatchException if members name different ranks or call {@link #split} instead,
   *     which fails this group
   * @throws CollectiveException as {@link #split} throws it
   * @throws IllegalStateException if this group is closed, or a split of it runs here
   */
  @Nullable CollectiveGroup newGroup(int... ranks);

  /** What this member knows of the group's ranks. Never blocks and asks nobody. */
  GroupHealth health();

  /**
   * Throws the failure of this group if there is one. It also reports failures of enqueued GPU
   * work, and is needed after synchronizing a raw CUDA stream, which does not look.
   */
  void throwIfFailed();

  /**
   * The failure of this group: the first one, which is final. A call that had returned and failed
   * on a GPU afterwards counts, too. Never blocks.
   *
   * <p>The result is a new exception each time, with the stack trace of this call. Its class and
   * its message are those of the exceptions that later calls throw. The message names the flight
   * record if that was written when it was first asked for.
   *
   * @return null while this member knows of no failure, and after a close in order. Calls on a GPU
   *     that a peer has ended may fail a moment before this member hears why; in that moment the
   *     result is null, too
   */
  @Nullable CollectiveException failure();

  /**
   * Has {@code listener} called once if the group fails, with its {@link #failure}, whether or not
   * anybody makes a call then. A group that closes in order never calls it.
   *
   * <p>If the group has failed already, the listener is called on the calling thread, before this
   * method returns, and what it throws goes on to the caller. Otherwise it is called on a thread of
   * its group's that does nothing else: one listener after another, in the order in which they were
   * added, so one that blocks keeps only the others waiting. What it throws there is logged as an
   * error, with the group's name, and harms neither the group nor the other listeners.
   *
   * <p>The listener is kept until it has been called, is removed, or the group has ended. One that
   * refers to its own group keeps that from becoming garbage: if such a group is dropped without
   * {@link #close}, the log does not report the leak.
   */
  void addFailureListener(Consumer<CollectiveException> listener);

  /**
   * Removes a listener, once if it was added several times. Does nothing if it is not there; one
   * that is being called, or is about to be because the group has failed, is called all the same.
   */
  void removeFailureListener(Consumer<CollectiveException> listener);

  /**
   * Ends the group for all members: running calls leave and throw, later ones throw at once. Never
   * blocks; any thread.
   *
   * @param reason one clause for the other members' messages
   */
  void abort(String reason);

  /**
   * {@link #abort(String)} with the class and the message of an exception as the reason, on one
   * line of at most 500 characters. This member's own failure has the exception as its cause, if
   * the group had not failed before; where it is serialized, a {@link CarriedCause} for it.
   *
   * <p>For the {@code catch} block of a member that cannot go on. Without it, the {@code close} of
   * a try-with-resources statement is all that the peers hear of, as of any other close:
   *
   * <pre>{@code
   * try (CollectiveGroup tp = Groups.join(ticket, rank)) {
   *   try {
   *     decode(tp);
   *   } catch (RuntimeException e) {
   *     tp.abort(e);
   *     throw e;
   *   }
   * }
   * }</pre>
   *
   * @throws IllegalArgumentException if {@code reason} is null
   */
  void abort(Throwable reason);

  /** Whether {@link #close} was called on this member or the group was destroyed. */
  boolean isClosed();

  /**
   * Leaves the group in order: waits, at most the join timeout, until all members close, and frees
   * this member's resources. What has not ended by then is ended by force, which takes at most 12 s
   * more; on rank 0, where the rendezvous ends too, 18 s. A failed group is freed without waiting.
   * Idempotent; throws nothing of the group's failure.
   *
   * <p>To the peers it is a close in order, also where an exception leaves a try-with-resources
   * statement: their next call fails because this rank "closed the group", without the reason. A
   * member that has one to tell calls {@link #abort(Throwable)} first.
   */
  @Override
  void close();
}
