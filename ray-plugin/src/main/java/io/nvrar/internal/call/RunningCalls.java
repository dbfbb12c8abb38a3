package io.nvrar.internal.call;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.async.AsyncStream;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The running calls of a member: threads of this process that are inside its calls, and enqueued
 * work that a device still executes. Thread-safe; allocates nothing.
 */
public final class RunningCalls {
  private final int rank;
  private final AtomicInteger callers = new AtomicInteger();
  private final Replays replays = new Replays();
  private volatile @Nullable NativeCommunicator communicator;
  private volatile boolean isAsync;

  public RunningCalls(int rank) {
    this.rank = rank;
  }

  /**
   * From now on calls can be made.
   *
   * @param async whether calls may fail after they have returned
   */
  public void own(NativeCommunicator prepared, boolean async) {
    isAsync = async;
    communicator = prepared;
  }

  /** The native member; null before it is prepared. */
  public @Nullable NativeCommunicator communicator() {
    return communicator;
  }

  /** Whether calls may fail after they have returned, so that failures must be polled. */
  public boolean isAsync() {
    return isAsync;
  }

  /** A thread begins a call; {@link #end} must follow. */
  public void begin() {
    callers.incrementAndGet();
  }

  public void end() {
    callers.decrementAndGet();
  }

  /** Called before a graph is launched; the calls that it replays are not counted. */
  public void replay(AsyncStream on) {
    replays.on(on);
  }

  /** Whether a thread is in a call. */
  public boolean haveCaller() {
    return callers.get() > 0;
  }

  /** Whether a call is running, including enqueued work of calls that have returned. */
  public boolean areAny() {
    NativeCommunicator comm = communicator;
    return haveCaller() || (isAsync && comm != null && isUnderWay(comm));
  }

  /** Whether the device has executed all enqueued work, including graphs. */
  public boolean areExecuted(NativeCommunicator comm) {
    return !isUnderWay(comm) && replays.areOver();
  }

  private boolean isUnderWay(NativeCommunicator comm) {
    return CommonCalls.isUnderWay(comm.call(rank));
  }
}
