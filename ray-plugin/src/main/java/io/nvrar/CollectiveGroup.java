package io.nvrar;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One member of a group of ranks that communicate by collectives.
 *
 * <p><b>Calls.</b> Every member makes the same collective calls with the same counts, types,
 * operations and roots in the same order; a difference throws a {@link GroupMismatchException} on
 * all members. Counts are in elements. A call on a {@link DeviceStream} runs in stream order. On a
 * GPU it returns when it is enqueued, and its result is complete when the stream has executed it;
 * the caller must order all calls of a group there, by using one stream or by events between
 * streams. On the CPU backend streams are immediate, so the call returns when this rank's result is
 * complete. A call made while the stream is capturing is recorded, not run. A call with count 0
 * moves nothing and waits for no rank, but takes its place in the order. The output of a failed
 * call is undefined. {@link #send}, {@link #recv}, {@link #sendReceive} and {@link #batch} are not
 * part of this order: they involve only the ranks that they name, and the n-th send from one rank
 * to another matches that rank's n-th recv from it.
 *
 * <p><b>Reductions</b> combine the operands in one fixed order, which depends only on the world
 * size and {@link GroupConfig#gpusPerNode}, so every rank and every {@link Algorithm} gives the
 * same bits. 16- and 32-bit floats are accumulated in float32, float64 in float64, and the result
 * is rounded once; integers wrap in their own width.
 *
 * <p><b>Threads.</b> Any thread may call. One call of a group runs at a time; a second thread that
 * enters meanwhile gets an {@link IllegalStateException}. {@link #abort(String)}, {@link #close},
 * {@link #failure}, {@link #throwIfFailed}, {@link #health}, {@link #statistics} and {@link
 * #writeFlightRecord} may be called at any time, by any thread.
 *
 * <p><b>Interrupts.</b> The thread's interrupt flag is kept in every case. What an interrupt does
 * depends on the call:
 *
 * <ul>
 *   <li>Collectives, {@link #barrier}, transfers and {@link #batch} are not shortened, and neither
 *       are waits for a stream or an event. {@link #abort(String)} from another thread ends them.
 *   <li>{@link #split} and {@link #newGroup} end with a {@link CollectiveException}. While this
 *       member agrees with the others on the new groups, this group then fails for all members,
 *       because they wait for this member's next step; while it joins its new group, that one
 *       fails.
 *   <li>{@link #close()} and {@link #close(Duration)} are not shortened, because leaving early
 *       would end calls of the other members. Use a shorter limit instead.
 *   <li>{@link #health}, {@link #failure}, {@link #throwIfFailed}, {@link #addFailureListener},
 *       {@link #statistics} and {@link #writeFlightRecord} are not shortened either.
 * </ul>
 *
 * <p><b>Errors.</b> A failure of enqueued GPU work is thrown by the next call, and by waits for the
 * stream ({@link DeviceStream}). A bad argument throws an {@link IllegalArgumentException} and
 * changes nothing. A call on a closed group throws an {@link IllegalStateException}. A {@link
 * CollectiveException} or one of its subclasses is final for the group: every later call throws the
 * same failure, and the only useful call left is {@link #close}. Only {@link #split} and {@link
 * #newGroup} may also throw a failure that is the new group's and does not affect this one.
 */
public interface CollectiveGroup extends AutoCloseable {

  /** The name under which the group was created. */
  String name();

  /** This member's rank, 0 to {@code worldSize() - 1}. */
  int rank();

  /** The number of members. */
  int worldSize();

  /** The backend that this group runs on, never {@link Backend#AUTO}. */
  Backend backend();

  /** The configuration that all members share. */
  GroupConfig config();

  /** The device of this member; allocate the buffers of collectives here. */
  Device device();

  /**
   * The group's own stream, used by the calls without a stream argument. {@link #close} closes it.
   * If the driver destroys the group, the stream is closed once everything submitted to it has been
   * executed; waiting for the stream still throws failures of that work.
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

  /** All-reduce with {@link Algorithm#AUTO}. */
  default void allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream) {
    allReduce(send, recv, op, Algorithm.AUTO, stream);
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives every rank the result, bit
   * by bit the same.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv the result, {@code n} elements of the same type; {@code send} itself or memory that
   *     does not overlap it
   * @param op the operation; {@link ReduceOp#AVG} for floats only
   * @param algorithm how to run it, the same on all ranks; {@link Algorithm#HIERARCHICAL} needs a
   *     group of several nodes
   * @param stream a stream of {@link #device()}
   */
  void allReduce(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream stream);

  /** Fused all-reduce with {@link Algorithm#AUTO} on the group's stream. */
  default void allReduce(DeviceBuffer input, AllReduceFusion fusion) {
    allReduce(input, fusion, Algorithm.AUTO, stream());
  }

  /** Fused all-reduce with {@link Algorithm#AUTO} on a stream. */
  default void allReduce(DeviceBuffer input, AllReduceFusion fusion, DeviceStream stream) {
    allReduce(input, fusion, Algorithm.AUTO, stream);
  }

  /**
   * Fused all-reduce: sums {@code input} over all ranks, adds a residual or a bias, normalises, and
   * stores the results, in one call. {@link AllReduceFusion} says what is computed, and has an
   * example.
   *
   * @param input this rank's values, as many as {@link AllReduceFusion#output} has and of the same
   *     type. It is only read, unless the fusion's output or new residual is this buffer itself
   * @param fusion what is done with the sums. Its form, type, rows, hidden and eps are the same on
   *     all ranks; its buffers belong to {@link #device()} and begin, like {@code input}, at
   *     addresses that are multiples of 16 bytes (with 0 rows, anywhere)
   * @param algorithm how to run it, the same on all ranks; {@link Algorithm#HIERARCHICAL} needs a
   *     group of several nodes. A group on GPUs of one host must have all of its ranks in one node,
   *     and, unless the form is {@link AllReduceFusion.Form#RESIDUAL}, rings that hold a row of
   *     each rank ({@link AllReduceFusion} has the bytes)
   * @param stream a stream of {@link #device()}
   */
  void allReduce(
      DeviceBuffer input, AllReduceFusion fusion, Algorithm algorithm, DeviceStream stream);

  /** Reduce in place by {@link ReduceOp#SUM} on the group's stream. */
  default void reduce(DeviceBuffer buffer, int root) {
    reduce(buffer, ReduceOp.SUM, root);
  }

  /**
   * Reduce in place on the group's stream; on ranks other than the root the buffer is only read.
   */
  default void reduce(DeviceBuffer buffer, ReduceOp op, int root) {
    reduce(buffer, buffer, op, root, stream());
  }

  /**
   * Reduces {@code send} over all ranks, element by element, and gives one rank the result.
   *
   * @param send this rank's values, {@code n} elements
   * @param recv the result, {@code n} elements of the same type, on the root: {@code send} itself
   *     or memory that does not overlap it. Ignored on other ranks, where it may be null
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
   * @param recv {@code n} elements of the same type: rank r gets the elements of the result from
   *     {@code r * n}. It may be this rank's own part of {@code send}, and may not overlap {@code
   *     send} otherwise
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
   *     r * n}. {@code send} may be this rank's own part of {@code recv}, and may not overlap it
   *     otherwise
   * @param stream a stream of {@link #device()}
   */
  void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream);

  /** Top-k on the group's stream. */
  default void topK(DeviceBuffer input, TopK topK) {
    topK(input, topK, stream());
  }

  /**
   * Finds the greatest elements of rows whose columns are divided among the ranks, as the logits of
   * a vocabulary are, without gathering the rows. {@link TopK} says what every rank gets, and has
   * an example.
   *
   * @param input this rank's columns, row after row: {@code topK.rows() * topK.columns()} elements
   * @param topK how many elements, and where they go. k, the number of rows and the input's type
   *     are the same on all ranks; its buffers belong to {@link #device()} and overlap neither
   *     {@code input} nor each other
   * @param stream a stream of {@link #device()}
   */
  void topK(DeviceBuffer input, TopK topK, DeviceStream stream);

  /** All-to-all in place on the group's stream. */
  default void allToAll(DeviceBuffer buffer) {
    allToAll(buffer, buffer);
  }

  /** All-to-all on the group's stream. */
  default void allToAll(DeviceBuffer send, DeviceBuffer recv) {
    allToAll(send, recv, stream());
  }

  /**
   * Sends a different part of every rank's values to every rank.
   *
   * @param send {@code worldSize() * n} elements; those from {@code r * n} go to rank r
   * @param recv {@code worldSize() * n} elements of the same type; those from {@code r * n} come
   *     from rank r; {@code send} itself or memory that does not overlap it
   * @param stream a stream of {@link #device()}
   */
  void allToAll(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream);

  /** Broadcast in place on the group's stream. */
  default void broadcast(DeviceBuffer buffer, int root) {
    broadcast(buffer, buffer, root, stream());
  }

  /**
   * Sends the values of one rank to all ranks.
   *
   * @param send the values, {@code n} elements; read on the root only
   * @param recv {@code n} elements of the same type; {@code send} itself or memory that does not
   *     overlap it
   * @param root the rank whose values are sent
   * @param stream a stream of {@link #device()}
   */
  void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream stream);

  /** Barrier on the group's stream. */
  default void barrier() {
    barrier(stream());
  }

  /** Enqueues a barrier, which completes in stream order once all ranks have entered it. */
  void barrier(DeviceStream stream);

  /** Sends on the group's stream; inside a {@link #batch}, on the batch's stream. */
  void send(DeviceBuffer buffer, int peer);

  /**
   * Sends a buffer to one rank, which must call {@link #recv}. Completes when the buffer may be
   * written again. A small send completes once the data is in the receiver's ring; a larger one
   * waits for the recv. Two ranks that first send to each other and then receive can therefore
   * deadlock; {@link #sendReceive} and {@link #batch} cannot.
   *
   * @param buffer the values; a count or a type that differs from the peer's {@link #recv} throws a
   *     {@link GroupMismatchException} on all ranks
   * @param peer another rank, or this rank itself in a {@link #batch} that also has the matching
   *     recv
   * @param stream a stream of {@link #device()}; in a batch, that of the batch
   */
  void send(DeviceBuffer buffer, int peer, DeviceStream stream);

  /** Receives on the group's stream; inside a {@link #batch}, on the batch's stream. */
  void recv(DeviceBuffer buffer, int peer);

  /**
   * Receives a buffer from one rank, which must call {@link #send}.
   *
   * @param buffer where the values go; a count or a type that differs from the peer's {@link #send}
   *     throws a {@link GroupMismatchException} on all ranks
   * @param peer another rank, or this rank itself in a {@link #batch} that also has the matching
   *     send
   * @param stream a stream of {@link #device()}; in a batch, that of the batch
   */
  void recv(DeviceBuffer buffer, int peer, DeviceStream stream);

  /** Sends and receives on the group's stream; inside a {@link #batch}, on the batch's stream. */
  void sendReceive(DeviceBuffer send, int destination, DeviceBuffer recv, int source);

  /**
   * Sends to one rank while receiving from another or the same rank. In a ring, for example, a
   * {@link #send} followed by a {@link #recv} on every rank can deadlock; this call cannot.
   *
   * @param send the values for {@code destination}
   * @param destination any rank; this rank itself only if {@code source} is this rank too
   * @param recv where the values from {@code source} go; may not overlap {@code send}
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
   * Runs many transfers together. The sends and recvs that {@code transfers} calls on this thread
   * are collected and started together when it returns, so that no transfer waits for a later one
   * of the batch. Transfers to one peer, and from one peer, keep their order; nothing else is
   * ordered. A buffer that is received into may not overlap any other buffer of the batch.
   *
   * @param transfers calls {@link #send}, {@link #recv} and {@link #sendReceive} of this group. Any
   *     other call of this group, direct or by launching a graph, throws an {@link
   *     IllegalStateException}. If {@code transfers} throws, nothing is sent or received, and the
   *     exception propagates
   * @param stream a stream of {@link #device()}; while it captures, the batch is recorded as one
   *     call
   */
  void batch(Runnable transfers, DeviceStream stream);

  /**
   * Creates new groups from this group's members: one group of all members that pass the same
   * color. Every member must call it, at the same point in the order of the group's calls. Blocks
   * until the new group exists.
   *
   * <p>The new group's name is this group's name and the color, such as {@code tp/0}; if that
   * exceeds 128 characters, its middle is replaced by {@code ...}. The new group has this one's
   * configuration, except for {@link GroupConfig#gpusPerNode}. That is the number of members per
   * node if the new group spans several nodes, the members of each node have consecutive ranks in
   * it, and all nodes have the same number of members (the last may have fewer); else 0, or this
   * group's if the members are too many for one node. The new group has to be closed separately,
   * and it survives the close or the failure of this one. It ends together with this group in three
   * cases only: the driver aborts or destroys this group, the driver is lost, or this group's rank
   * 0 is lost.
   *
   * <p>This group fails if a member does not call within the join timeout, or if members call at
   * different points of their order of calls. An error after that, while the new group is created,
   * makes this method throw on the members of the new group and does not affect this group. {@link
   * #throwIfFailed} tells whether this group has failed.
   *
   * @param color 0 or more; negative for a member that joins no new group
   * @param key determines the ranks in the new group: ascending by key, equal keys by the rank in
   *     this group. If the new group spans hosts, the ranks of each host are consecutive, with the
   *     hosts in the order of their first ranks
   * @return this process's member of the new group; empty if {@code color} is negative
   * @throws CollectiveTimeoutException if a member did not call split within the join timeout,
   *     which fails this group; or if a member did not join the new group within another join
   *     timeout, which does not
   * @throws GroupMismatchException if members call it at different points, which fails this group
   * @throws CollectiveException if this group fails or has failed; or if the new group could not be
   *     created, or lost a member during its creation
   * @throws IllegalStateException if this group is closed, or another split of it is running on
   *     this member
   */
  Optional<CollectiveGroup> split(int color, int key);

  /**
   * Creates a new group of some members of this one. Every member must call it with the same ranks,
   * at the same point in the order of the group's calls, including the members that are not listed.
   * Blocks until the new group exists; on a member that is not listed, until all members have
   * called it.
   *
   * <p>This is a form of {@link #split}: its rules for the new group's configuration, lifetime and
   * failures apply. The new group's name is this group's name and the ranks, such as {@code
   * tp/3,1}.
   *
   * @param ranks the members of the new group, by their ranks in this group: the first listed
   *     becomes rank 0, the second rank 1, and so on. If they are on several hosts, those of each
   *     host should be listed together; otherwise they move up to the first of their host
   * @return this process's member of the new group; empty if this rank is not listed
   * @throws IllegalArgumentException if {@code ranks} is empty, lists a rank twice, or lists a rank
   *     that this group does not have; nothing has happened then, and this member may call again
   * @throws GroupMismatchException if members pass different ranks, or call {@link #split} instead;
   *     this group then fails
   * @throws CollectiveException under the same conditions as {@link #split}
   * @throws IllegalStateException if this group is closed, or a split of it is running on this
   *     member
   */
  Optional<CollectiveGroup> newGroup(int... ranks);

  /**
   * What this member knows about the group's ranks. Asks the ranks on other hosts for their last
   * calls, for which it waits at most 100 ms; the others have to do nothing for it. Of a rank that
   * does not answer, it has the call that this rank last told.
   */
  GroupHealth health();

  /**
   * What this member has called and waited for since its group was created. Takes microseconds, and
   * waits for nothing. The library counts all the time, so calls do not become slower by this. Of a
   * closed group, the numbers at its close.
   */
  GroupStatistics statistics();

  /**
   * Writes the last 1,024 calls of every rank on this host, and what is known of the ranks on
   * others, to a file for {@code nvrar trace} and {@code nvrar post-mortem}. One rank of each host
   * is enough. The calls go on meanwhile: one that begins or ends during this may be missing or
   * seem to run. A group that fails writes such a file by itself ({@code nvrar.flight.dir}).
   *
   * @param file replaced if it exists, with its permissions kept; it appears complete or not at
   *     all. If it is a link, the file that it leads to is replaced
   * @throws IOException if {@code file} cannot be written, or is no regular file
   * @throws IllegalStateException if this group is closed
   */
  void writeFlightRecord(Path file) throws IOException;

  /**
   * Throws the failure of this group if there is one. Also reports failures of enqueued GPU work;
   * needed after synchronizing a raw CUDA stream.
   */
  void throwIfFailed();

  /**
   * The failure of this group: the first one, which is final. It includes the failure of GPU work
   * whose call had already returned. Never blocks.
   *
   * <p>Each call returns a new exception with the stack trace of that call. Its class and message
   * are those of the exceptions that later calls of the group throw. The message names the flight
   * record, and says if it was still being written when the failure was first requested.
   *
   * @return null while this member knows of no failure, and after an orderly close. GPU calls that
   *     a peer has ended may fail shortly before this member learns the reason; until then the
   *     result is null, too
   */
  @Nullable CollectiveException failure();

  /**
   * Registers a listener, which is called once with the {@link #failure} if the group fails, even
   * if no call is made after that. A group that closes in order never calls it.
   *
   * <p>If the group has already failed, this method waits for the flight record, at most 250 ms,
   * and calls the listener on the calling thread before it returns, and an exception of the
   * listener propagates to the caller. Otherwise a thread that the group dedicates to its listeners
   * calls them one after another, in the order in which they were added, so a listener that blocks
   * delays only the other listeners. An exception thrown there is logged as an error, with the
   * group's name, and affects neither the group nor the other listeners.
   *
   * <p>The listener is kept until it has been called, is removed, or the group has ended. A
   * listener that references its own group keeps the group reachable: if such a group is dropped
   * without {@link #close}, the leak is not logged.
   */
  void addFailureListener(Consumer<CollectiveException> listener);

  /**
   * Removes a listener; if it was added several times, one registration. Does nothing if the
   * listener is not registered. A listener is still called if the group has already failed.
   */
  void removeFailureListener(Consumer<CollectiveException> listener);

  /**
   * Aborts the group for all members: running calls end and throw, later calls throw at once. Never
   * blocks. Any thread may call.
   *
   * @param reason one clause for the other members' messages
   */
  void abort(String reason);

  /**
   * {@link #abort(String)} with the class and the message of an exception as the reason, on one
   * line of at most 500 characters. If the group had not failed before, this member's failure has
   * the exception as its cause; serialized, it has a {@link CarriedCause} instead.
   *
   * <p>Call it in the {@code catch} block of a member that cannot continue. Without it, the peers
   * see only the {@code close} of the try-with-resources statement, like any other close:
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

  /** Whether {@link #close} was called on this member, or the driver destroyed the group. */
  boolean isClosed();

  /** {@link #close(Duration)} with {@link GroupConfig#joinTimeout} as the limit. */
  @Override
  void close();

  /**
   * Leaves the group and frees this member's resources. Does not throw the group's failure.
   * Idempotent.
   *
   * <p><b>Order.</b> This member accepts no more calls and announces its close to the others. It
   * waits at most {@code limit} until all members have closed, so that their last calls can
   * complete. Then it leaves. A failed group has no order: the resources are freed without waiting
   * for the others.
   *
   * <p><b>Duration.</b> A call of this member that still runs after the limit is aborted, and with
   * it the same call of the other members. Work that was enqueued on a GPU before an orderly close
   * has another 8 s to complete. Freeing takes at most another 12 s, or 18 s on rank 0, which also
   * ends the rendezvous. So the limit does not bound the whole call. If several threads close the
   * group, the shortest limit counts.
   *
   * <p><b>Interrupts.</b> An interrupt does not shorten the wait, because leaving early would end
   * calls of the other members. The thread's interrupt flag is kept. An interrupted close is
   * announced like any other.
   *
   * <p><b>Exceptions.</b> The peers see an orderly close even if an exception leaves a
   * try-with-resources statement: their next call fails because this rank "closed the group",
   * without the reason. To report the reason, call {@link #abort(Throwable)} first.
   *
   * @param limit how long to wait for the other members, 1 ms to 1 day
   * @throws IllegalArgumentException if {@code limit} is out of range; the group is not closed then
   */
  void close(Duration limit);
}
