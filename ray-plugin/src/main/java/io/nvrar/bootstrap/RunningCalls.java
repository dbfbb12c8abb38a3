package io.nvrar.bootstrap;

import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.binding.NativeCommunicator;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * What runs on a member: which threads of this process are in its calls, and what a device still
 * executes of calls that have returned. Any thread; allocates nothing.
 */
final class RunningCalls {
  private final int rank;
  private final AtomicInteger callers = new AtomicInteger();
  private final Replays replays = new Replays();
  private volatile @Nullable NativeCommunicator communicator;
  private volatile boolean isAsync;

  RunningCalls(int rank) {
    this.rank = rank;
  }

  /**
   * From here on there can be calls.
   *
   * @param async whether they fail after they have returned
   */
  void own(NativeCommunicator prepared, boolean async) {
    isAsync = async;
    communicator = prepared;
  }

  /** The native member; null before it is prepared. */
  @Nullable NativeCommunicator communicator() {
    return communicator;
  }

  /** Whether calls fail after they have returned, so that somebody must look. */
  boolean isAsync() {
    return isAsync;
  }

  /** A thread begins a call; {@link #end} must follow. */
  void begin() {
    callers.incrementAndGet();
  }

  void end() {
    callers.decrementAndGet();
  }

  /** A graph is about to be launched: of the numbers of what it replays nobody keeps count. */
  void replay(AsyncStream on) {
    replays.on(on);
  }

  /** Whether a thread is in a call. */
  boolean haveCaller() {
    return callers.get() > 0;
  }

  /** Whether a call runs; on a device also after it has returned. */
  boolean areAny() {
    NativeCommunicator comm = communicator;
    return haveCaller() || (isAsync && comm != null && isUnderWay(comm));
  }

  /** Whether a device has executed all that was enqueued, graphs too. */
  boolean areExecuted(NativeCommunicator comm) {
    return !isUnderWay(comm) && replays.areOver();
  }

  private boolean isUnderWay(NativeCommunicator comm) {
    return CommonCalls.isUnderWay(comm.call(rank));
  }
}
