package io.nvrar.internal;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One member of a native communicator: {@code nvrar_comm} with a life cycle that Java threads
 * cannot break. Statuses arrive as the exceptions of {@code io.nvrar}. One collective runs at a
 * time, a second gets an {@link IllegalStateException}; {@link #abort}, {@link #call}, {@link
 * #failure} and {@link #close} are safe from any thread at any time.
 *
 * <p>Addresses must be those of live memory of the communicator's backend: nothing here can check
 * them.
 */
public final class NativeCommunicator implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(NativeCommunicator.class);

  /** An aborted call leaves within microseconds; this covers a machine that is out of CPUs. */
  private static final long CLOSE_WAIT_NANOS = TimeUnit.SECONDS.toNanos(10);

  // The states of the one-call-at-a-time rule. Whoever leaves CLOSING or takes IDLE to CLOSED frees
  // the native member, so a
  // running call never sees its memory go.
  private static final int IDLE = 0;
  private static final int RUNNING = 1;
  private static final int CLOSING = 2;
  private static final int CLOSED = 3;

  private final long comm;
  private final int rank;
  private final int worldSize;
  private final byte[] descriptor;
  private final AtomicInteger state = new AtomicInteger(IDLE);

  // Keeps the cold calls, which may overlap a collective, apart from nvrar_destroy. Held for a
  // native call that does not block.
  private final Object lifecycle = new Object();
  private boolean released;
  private boolean destroyed;
  private final CallRecord[] callsAtClose;
  private @Nullable CollectiveException failureAtClose;

  // What the first call that failed has thrown: it knows more than the library remembers.
  private volatile @Nullable CollectiveException firstFailure;

  private NativeCommunicator(long comm, int rank, int worldSize, byte[] descriptor) {
    this.comm = comm;
    this.rank = rank;
    this.worldSize = worldSize;
    this.descriptor = descriptor;
    callsAtClose = new CallRecord[worldSize];
    Arrays.fill(callsAtClose, CallRecord.NONE);
  }

  /**
   * The build id of the loaded library; members with different ones may not meet.
   *
   * @throws io.nvrar.BackendUnavailableException if the library cannot be loaded
   */
  public static String buildId() {
    NativeLibraries.ensureAvailable();
    return NativeStatus.text(NvrarBinding.nvrar_build_id());
  }

  /**
   * Does nothing where the library is loaded and the backend can run on this machine.
   *
   * @param backend not AUTO
   * @throws io.nvrar.BackendUnavailableException otherwise, with what is missing
   */
  public static void ensureAvailable(Backend backend) {
    int code = backendCode(backend);
    NativeLibraries.ensureAvailable();
    NativeStatus.check(NvrarBinding.nvrar_probe(code));
  }

  /**
   * A new group's unique id. This process must stay alive until all members have connected.
   *
   * @throws io.nvrar.BackendUnavailableException if the library or the backend cannot be used
   */
  public static byte[] uniqueId(Backend backend) {
    int code = backendCode(backend);
    NativeLibraries.ensureAvailable();
    byte[] id = new byte[NvrarBinding.UNIQUE_ID_BYTES];
    NativeStatus.check(NvrarBinding.nvrar_unique_id(code, id));
    return id;
  }

  /**
   * Reserves this member's memory; {@link #connect} follows when all members' descriptors are
   * known.
   *
   * @param backend not AUTO
   * @param deviceOrdinal ignored by the CPU backend
   * @param rank 0 to {@code worldSize - 1}
   * @param worldSize the number of members
   * @param uniqueId the same on all members, from {@link #uniqueId}
   * @param ringBytes what a rank receives in one hop of one launch; 0 = the backend's default
   * @param timeoutNanos the deadline of one collective call
   * @throws io.nvrar.BackendUnavailableException if the library or the backend cannot be used
   * @throws io.nvrar.CollectiveException if the machine has no room; nothing stays behind
   */
  public static NativeCommunicator prepare(
      Backend backend,
      int deviceOrdinal,
      int rank,
      int worldSize,
      byte[] uniqueId,
      long ringBytes,
      long timeoutNanos) {
    int code = backendCode(backend);
    requireLength("unique id", uniqueId, NvrarBinding.UNIQUE_ID_BYTES);
    NativeLibraries.ensureAvailable();
    byte[] descriptor = new byte[NvrarBinding.DESCRIPTOR_BYTES];
    byte[] handle = new byte[Long.BYTES];
    NativeStatus.check(
        NvrarBinding.nvrar_prepare(
            NativeStructs.config(code, rank, worldSize, deviceOrdinal, ringBytes, timeoutNanos),
            uniqueId,
            descriptor,
            handle));
    long comm = ByteBuffer.wrap(handle).order(ByteOrder.nativeOrder()).getLong();
    return new NativeCommunicator(comm, rank, worldSize, descriptor);
  }

  /** What the other members need to reach this one. */
  public byte[] descriptor() {
    return descriptor.clone();
  }

  /** Maps the peers. Called once. */
  public void connect(byte[][] descriptorsInRankOrder) {
    if (descriptorsInRankOrder.length != worldSize) {
      throw new IllegalArgumentException(
          "a group of "
              + worldSize
              + " needs as many descriptors, not "
              + descriptorsInRankOrder.length);
    }
    ByteBuffer all = ByteBuffer.allocate(worldSize * NvrarBinding.DESCRIPTOR_BYTES);
    for (byte[] one : descriptorsInRankOrder) {
      requireLength("descriptor", one, NvrarBinding.DESCRIPTOR_BYTES);
      all.put(one);
    }
    enter("connect");
    try {
      checkCall(NvrarBinding.nvrar_connect(comm, all.array()));
    } finally {
      leave();
    }
  }

  /** {@code nvrar_all_reduce}. */
  public void allReduce(long send, long recv, long count, int dataType, int op, long stream) {
    enter("allReduce");
    try {
      checkCall(NvrarBinding.nvrar_all_reduce(comm, send, recv, count, dataType, op, stream));
    } finally {
      leave();
    }
  }

  /** {@code nvrar_all_gather}. */
  public void allGather(long send, long recv, long count, int dataType, long stream) {
    enter("allGather");
    try {
      checkCall(NvrarBinding.nvrar_all_gather(comm, send, recv, count, dataType, stream));
    } finally {
      leave();
    }
  }

  /** {@code nvrar_broadcast}. */
  public void broadcast(long send, long recv, long count, int dataType, int root, long stream) {
    enter("broadcast");
    try {
      checkCall(NvrarBinding.nvrar_broadcast(comm, send, recv, count, dataType, root, stream));
    } finally {
      leave();
    }
  }

  /** {@code nvrar_barrier}. */
  public void barrier(long stream) {
    enter("barrier");
    try {
      checkCall(NvrarBinding.nvrar_barrier(comm, stream));
    } finally {
      leave();
    }
  }

  /**
   * Makes the running call and all later ones end with a {@link io.nvrar.CollectiveException}, here
   * and on every peer that shares memory with this member. Never blocks and allocates nothing; does
   * nothing after {@link #close}.
   */
  public void abort() {
    int status = NativeStatus.OK;
    synchronized (lifecycle) {
      if (!released) {
        status = NvrarBinding.nvrar_abort(comm);
      }
    }
    if (status != NativeStatus.OK) {
      LOG.warn("Rank {} of {} could not be aborted: status {}", rank, worldSize, status);
    }
  }

  /**
   * The last call of a rank, as that rank wrote it; also after {@link #abort} and after the rank's
   * death. After {@link #close}, what it was at that time.
   */
  public CallRecord call(int ofRank) {
    if (ofRank < 0 || ofRank >= worldSize) {
      throw new IllegalArgumentException(
          "rank " + ofRank + " is not a rank of a group of " + worldSize);
    }
    synchronized (lifecycle) {
      return released ? callsAtClose[ofRank] : readCall(ofRank);
    }
  }

  /**
   * Why this member is poisoned, null if it is not. After {@link #close}, what it was at that time.
   */
  public @Nullable CollectiveException failure() {
    synchronized (lifecycle) {
      return released ? failureAtClose : readFailure();
    }
  }

  /**
   * Ends a running call as {@link #abort} does, and frees this member's resources when it has left:
   * before this returns, unless the call's thread gets no CPU for 10 seconds. Idempotent; throws
   * nothing.
   */
  @Override
  public void close() {
    for (int now = state.get(); now < CLOSING; now = state.get()) {
      if (now == IDLE && state.compareAndSet(IDLE, CLOSED)) {
        destroy();
        return;
      }
      if (now == RUNNING && state.compareAndSet(RUNNING, CLOSING)) {
        abort();
        break;
      }
    }
    awaitDestroyed();
  }

  @Override
  public String toString() {
    return "NativeCommunicator[rank " + rank + " of " + worldSize + "]";
  }

  private void enter(String what) {
    if (!state.compareAndSet(IDLE, RUNNING)) {
      throw refused(what);
    }
  }

  private void leave() {
    if (!state.compareAndSet(RUNNING, IDLE)) {
      state.set(CLOSED);
      destroy();
    }
  }

  private IllegalStateException refused(String what) {
    String member = "rank " + rank + " of a group of " + worldSize;
    return new IllegalStateException(
        state.get() >= CLOSING
            ? what + " was called on " + member + " after it was closed"
            : what
                + " was called on "
                + member
                + " while another call of the same group runs there; one collective of a group runs at a time");
  }

  // Called inside enter/leave, so that the communicator is there to say who was missing.
  private void checkCall(int status) {
    if (status == NativeStatus.OK) {
      return;
    }
    RuntimeException e = NativeStatus.exception(status, comm);
    if (e instanceof CollectiveException failure && firstFailure == null) {
      firstFailure = failure;
    }
    throw e;
  }

  private CallRecord readCall(int ofRank) {
    byte[] call = NativeStructs.empty(NativeStructs.CALL_BYTES);
    // Before connect there is nobody to read from yet: no call was made.
    return NvrarBinding.nvrar_call_of(comm, ofRank, call) == NativeStatus.OK
        ? NativeStructs.call(call)
        : CallRecord.NONE;
  }

  private @Nullable CollectiveException readFailure() {
    int status = NvrarBinding.nvrar_async_error(comm);
    if (status == NativeStatus.OK) {
      return null;
    }
    CollectiveException first = firstFailure;
    return first != null
        ? first
        : NativeStatus.exception(status, comm) instanceof CollectiveException failure
            ? failure
            : new CollectiveException("the group failed with status " + status);
  }

  private void destroy() {
    synchronized (lifecycle) {
      for (int r = 0; r < worldSize; r++) {
        callsAtClose[r] = readCall(r);
      }
      failureAtClose = readFailure();
      released = true;
    }
    // Outside the lock: abort may not wait for memory to be unmapped.
    int status = NvrarBinding.nvrar_destroy(comm);
    if (status != NativeStatus.OK) {
      LOG.warn("{} was not freed whole: {}", this, NativeStatus.exception(status, 0).getMessage());
    }
    synchronized (lifecycle) {
      destroyed = true;
      lifecycle.notifyAll();
    }
  }

  private void awaitDestroyed() {
    long deadlineNanos = System.nanoTime() + CLOSE_WAIT_NANOS;
    boolean interrupted = false;
    synchronized (lifecycle) {
      while (!destroyed) {
        long leftNanos = deadlineNanos - System.nanoTime();
        if (leftNanos <= 0) {
          LOG.warn(
              "{} is still in a call that was aborted; it is freed when the call leaves", this);
          break;
        }
        try {
          TimeUnit.NANOSECONDS.timedWait(lifecycle, leftNanos);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static int backendCode(Backend backend) {
    return switch (backend) {
      case CPU -> 1;
      case CUDA -> 2;
      case AUTO ->
          throw new IllegalArgumentException(
              "AUTO is not a backend a group can run on; resolve it first");
    };
  }

  private static void requireLength(String what, byte[] bytes, int length) {
    if (bytes.length != length) {
      throw new IllegalArgumentException(
          "a " + what + " has " + length + " bytes, not " + bytes.length);
    }
  }
}
