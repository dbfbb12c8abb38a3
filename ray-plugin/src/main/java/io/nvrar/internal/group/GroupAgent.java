package io.nvrar.internal.group;

import io.nvrar.internal.Monitor;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.wire.Failure;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The one owner of a member's {@link GroupState}, and of the count of calls in flight. A state
 * changes under this monitor, together with what other threads must not see without it; a thread
 * that reads it takes one snapshot and no lock.
 *
 * <p>A close and a call meet in a stated order. The call reads the state, counts itself, and reads
 * the state again: if it is another one, the call is not counted any more and begins anew. The
 * close changes the state, and then reads the count. So either the call finds the close, or the
 * close finds the call, waits for it, and announces a number of calls that includes it.
 */
final class GroupAgent extends Monitor {
  private final int rank;
  private final AtomicInteger inFlight = new AtomicInteger();
  private final Replays replays = new Replays();

  /** Written under the monitor. */
  private volatile GroupState state = new GroupState();

  // For a channel's thread that has no memory, which alone uses them.
  private final GroupState spare = new GroupState();
  private final Runnable breakNow = this::breakNow;
  private @Nullable Failure breaking;
  private @Nullable Throwable breakingBy;

  GroupAgent(int rank) {
    this.rank = rank;
  }

  GroupState state() {
    return state;
  }

  /**
   * Changes the state and wakes whoever waits for it.
   *
   * @return the new state
   */
  GroupState change(UnaryOperator<GroupState> transition) {
    return locked(
        () -> {
          update(() -> publish(transition.apply(state)));
          return state;
        });
  }

  /** Publishes a state that {@link #state} leads to. Under the monitor; allocates nothing. */
  void publish(GroupState next) {
    state = next;
  }

  /**
   * Records that the channel's thread is ended by an error; allocates nothing. For that thread
   * only.
   *
   * @return whether this is the first failure
   */
  @SuppressWarnings("ReferenceEquality") // two failures may have the same text
  boolean breakDown(Failure reason, Throwable by) {
    breaking = reason;
    breakingBy = by;
    update(breakNow);
    return state.failure() == reason;
  }

  private void breakNow() {
    Failure reason = breaking;
    if (reason != null) {
      publish(state.failed(reason, breakingBy, spare));
    }
  }

  /** Waits for a state that no interrupt keeps it from; returns whether it came in time. */
  boolean awaitState(Predicate<GroupState> wanted, long deadlineNanos) {
    return awaitUninterruptibly(() -> wanted.test(state), deadlineNanos);
  }

  /** Counts a call in flight, whatever the state; {@link #end} must follow. */
  void begin() {
    inFlight.incrementAndGet();
  }

  /**
   * {@link #begin} in a state that was checked. Returns false, and counts nothing, if it has
   * changed, perhaps to a close. Allocates nothing.
   */
  boolean begin(GroupState checked) {
    begin();
    boolean isStill = state == checked;
    if (!isStill) {
      end();
    }
    return isStill;
  }

  void end() {
    inFlight.decrementAndGet();
  }

  /** Called before a graph is launched; the calls that it replays are not counted. */
  void replay(AsyncStream on) {
    replays.on(on);
  }

  /** Whether a thread is in a call. */
  boolean hasCaller() {
    return inFlight.get() > 0;
  }

  /** Whether a call is running, including enqueued work of calls that have returned. */
  boolean hasCalls() {
    GroupState seen = state;
    NativeCommunicator comm = seen.communicator();
    return hasCaller() || (seen.isAsync() && comm != null && comm.call(rank).isUnderWay());
  }

  /** Whether the device has executed all enqueued work, including graphs. */
  boolean hasExecuted(NativeCommunicator comm) {
    return !comm.call(rank).isUnderWay() && replays.areOver();
  }
}
