package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.binding.TransferList;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import io.nvrar.internal.device.host.HostStream;
import io.nvrar.internal.device.memory.BufferMemory;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * The way into and out of the native library that every call takes: looks whether the group still
 * makes calls and this thread makes no batch, and keeps the buffers and the stream, whoever closes
 * them. Allocates nothing.
 */
final class CallGate implements EnqueuedCalls {
  private final Member member;
  private final CallErrors errors;
  private final NativeCommunicator communicator;

  /** The thread that has a batch; the next field is its own. */
  private final AtomicReference<@Nullable Thread> batcher = new AtomicReference<>();

  private boolean collects;

  CallGate(Member member, NativeCommunicator communicator) {
    this.member = member;
    errors = member.errors();
    this.communicator = communicator;
  }

  NativeCommunicator communicator() {
    return communicator;
  }

  /** Makes this thread the one that has a batch, and collects; false if another is. */
  boolean beginBatch() {
    if (!batcher.compareAndSet(null, Thread.currentThread())) {
      return false;
    }
    collects = true;
    return true;
  }

  /** From here on this thread's batch may run. */
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

  /** Throws if this thread collects a batch, in which {@code call} has no place. */
  void refuseInBatch(String call) {
    if (isCollecting()) {
      throw misplaced(call + " was called");
    }
  }

  private static IllegalStateException misplaced(String what) {
    return new IllegalStateException(
        what + " inside a batch, which takes send, recv and sendReceive only");
  }

  /** Throws if no further collective can be made, or none here. */
  void checkCallable(String call) {
    refuseInBatch(call);
    errors.checkCallable(communicator);
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    errors.checkTransferable();
  }

  /** Begins a collective; {@link #leave} must follow if this returns. */
  void enter(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv, DeviceStream on) {
    refuseReplayInBatch();
    member.enterCall(communicator);
    retain(send, recv, on);
  }

  /** Begins a transfer; {@link #leave} must follow if this returns. */
  void enterTransfer(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv, DeviceStream on) {
    refuseReplayInBatch();
    member.enterTransfer();
    retain(send, recv, on);
  }

  @Override
  public void enter(AsyncStream on) {
    refuseReplayInBatch();
    member.enterReplay(on);
  }

  @Override
  public void leave() {
    member.leaveCall();
  }

  @Override
  public void throwIfFailed() {
    errors.throwIfFailed(communicator);
  }

  @Override
  public boolean awaitsReason() {
    return errors.awaitsReason(communicator);
  }

  @Override
  public @Nullable RuntimeException failure() {
    return errors.failure(communicator);
  }

  @Override
  public boolean isOver() {
    return member.isClosing();
  }

  // What is called has been refused before it comes here; what a graph has recorded has not.
  private void refuseReplayInBatch() {
    if (isCollecting()) {
      throw misplaced("a graph with calls of this group was launched");
    }
  }

  private void retain(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv, DeviceStream on) {
    try {
      BufferMemory.retain(send, recv);
      try {
        carry(on);
      } catch (RuntimeException e) {
        BufferMemory.release(send, recv);
        throw e;
      }
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leave(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv, DeviceStream on) {
    release(on);
    BufferMemory.release(send, recv);
    member.leaveCall();
  }

  /** Begins a batch; {@link #leave(TransferList, DeviceStream)} must follow if this returns. */
  void enterTransfers(TransferList transfers, DeviceStream on) {
    refuseReplayInBatch();
    member.enterTransfer();
    try {
      BufferMemory.retainAll(transfers);
      try {
        carry(on);
      } catch (RuntimeException e) {
        BufferMemory.releaseAll(transfers);
        throw e;
      }
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leave(TransferList transfers, DeviceStream on) {
    release(on);
    BufferMemory.releaseAll(transfers);
    member.leaveCall();
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

  /** What to throw for what the native library has thrown in a collective. */
  RuntimeException failed(CollectiveException e) {
    return errors.callFailed(e, true);
  }

  /** The same in a transfer or a batch. */
  RuntimeException transferFailed(CollectiveException e) {
    return errors.callFailed(e, false);
  }

  /**
   * Whether a call is to be recorded: a GPU's driver records what is launched, the host nothing.
   */
  static boolean records(DeviceStream on) {
    return on instanceof HostStream host && host.isCapturing();
  }

  /** Has a stream that {@link #records} record a call. */
  static void record(DeviceStream on, Runnable call) {
    ((HostStream) on).submit(call);
  }
}
