package io.nvrar.internal.call;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.async.AsyncStream;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * What runs on a member: which threads of this process are in its calls, and what a device still
 * executes of calls that have returned. Any thread; allocates nothing.
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
   * From here on there can be calls.
   *
   * @param async whether they fail after they have returned
   */
  public void own(NativeCommunicator prepared, boolean async) {
    isAsync = async;
    communicator = prepared;
  }

  /** The native member; null before it is prepared. */
  public @Nullable NativeCommunicator communicator() {
    return communicator;
  }

  /** Whether calls fail after they have returned, so that somebody must look. */
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

  /** A graph is about to be launched: of the numbers of what it replays nobody keeps count. */
  public void replay(AsyncStream on) {
    replays.on(on);
  }

  /** Whether a thread is in a call. */
  public boolean haveCaller() {
    return callers.get() > 0;
  }

  /** Whether a call runs; on a device also after it has returned. */
  public boolean areAny() {
    NativeCommunicator comm = communicator;
    return haveCaller() || (isAsync && comm != null && isUnderWay(comm));
  }

  /** Whether a device has executed all that was enqueued, graphs too. */
  public boolean areExecuted(NativeCommunicator comm) {
    return !isUnderWay(comm) && replays.areOver();
  }

  private boolean isUnderWay(NativeCommunicator comm) {
    return CommonCalls.isUnderWay(comm.call(rank));
  }
}
