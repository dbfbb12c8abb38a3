package io.nvrar.internal.group;

import io.nvrar.CollectiveException;
import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.Call;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import io.nvrar.internal.device.host.HostStream;
import io.nvrar.internal.device.memory.BufferMemory;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Every call enters and leaves the native library through this gate. It checks that the group still
 * accepts calls and that this thread is not collecting a batch, and keeps the buffers and the
 * stream open while the call uses them. Allocates nothing.
 */
final class CallGate implements EnqueuedCalls {
  private final GroupAgent agent;
  private final MemberFailures failure;
  private final NativeCommunicator communicator;

  /** The thread that makes a batch. Only that thread uses the next field. */
  private final AtomicReference<@Nullable Thread> batcher = new AtomicReference<>();

  private boolean collects;

  CallGate(Member member, NativeCommunicator communicator) {
    agent = member.agent();
    failure = member.failures();
    this.communicator = communicator;
  }

  /** For tests: what its calls throw. */
  MemberFailures failures() {
    return failure;
  }

  /**
   * Makes this thread the one that makes a batch, and begins to collect; returns false if another
   * thread is.
   */
  boolean beginBatch() {
    if (!batcher.compareAndSet(null, Thread.currentThread())) {
      return false;
    }
    collects = true;
    return true;
  }

  /** Ends collecting; this thread's batch may run from now on. */
  void endCollecting() {
    collects = false;
  }

  void endBatch() {
    collects = false;
    batcher.set(null);
  }

  /** Whether this thread collects the transfers of a batch. */
  boolean isCollecting() {
    return batcher.get() == Thread.currentThread() && collects;
  }

  /** Throws if this thread collects a batch, in which {@code call} is not allowed. */
  void refuseInBatch(String call) {
    if (isCollecting()) {
      throw misplaced(call + " was called");
    }
  }

  private static IllegalStateException misplaced(String what) {
    return new IllegalStateException(
        what + " inside a batch, which takes send, recv and sendReceive only");
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    failure.check(agent.state(), false);
  }

  /**
   * Begins a call; {@link #leave} must follow if this returns.
   *
   * @throws IllegalStateException also if this thread collects a batch
   */
  void enter(Call call) {
    refuseInBatch(call.method());
    enter(!call.kind().isTransfer());
  }

  /** Begins a call of all members; {@link #leave} must follow if this returns. */
  void enterCollective() {
    enter(true);
  }

  private void enter(boolean inCollective) {
    GroupState seen;
    do {
      seen = agent.state();
      if (!seen.isUnharmed()) {
        failure.check(seen, inCollective);
      }
    } while (!agent.begin(seen));
  }

  /** Begins a call that a graph replays; {@link #leave} must follow if this returns. */
  void enterReplay(Call call) {
    refuseReplayInBatch();
    enter(!call.kind().isTransfer());
  }

  @Override
  public void enter(AsyncStream on) {
    refuseReplayInBatch();
    enter(false);
    boolean isRemembered = false;
    try {
      agent.replay(on);
      isRemembered = true;
    } finally {
      if (!isRemembered) {
        leave(); // there was no memory for it
      }
    }
  }

  @Override
  public void leave() {
    agent.end();
  }

  @Override
  public void throwIfFailed() {
    failure.throwIfFailed(communicator);
  }

  @Override
  public boolean awaitsReason() {
    return failure.awaitsReason(communicator);
  }

  @Override
  public @Nullable RuntimeException failure() {
    return failure.failure(communicator);
  }

  @Override
  public boolean isOver() {
    return agent.state().isClosing();
  }

  private void refuseReplayInBatch() {
    if (isCollecting()) {
      throw misplaced("a graph with calls of this group was launched");
    }
  }

  /** Runs a call that has entered and was checked. */
  void run(Call call, DeviceStream on) {
    BufferMemory.retain(call);
    try {
      carry(on);
      try {
        communicator.run(call, on.handle());
      } catch (CollectiveException e) {
        throw failure.callFailed(e, !call.kind().isTransfer());
      } finally {
        release(on);
      }
    } finally {
      BufferMemory.release(call);
    }
  }

  private void carry(DeviceStream on) {
    if (on instanceof AsyncStream async) {
      async.carry(this);
    }
  }

  private static void release(DeviceStream on) {
    if (on instanceof AsyncStream async) {
      async.release();
    }
  }

  /**
   * Whether this library must record a call by itself. A GPU's driver records launches; on the host
   * nothing else does.
   */
  static boolean records(DeviceStream on) {
    return on instanceof HostStream host && host.isCapturing();
  }

  /** Records a call on a stream for which {@link #records} is true. */
  static void record(DeviceStream on, Runnable call) {
    ((HostStream) on).submit(call);
  }
}
