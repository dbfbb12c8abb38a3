package io.nvrar.internal.member;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveException;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.TopK;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.binding.TransferList;
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
  private final Member member;
  private final CallErrors errors;
  private final NativeCommunicator communicator;

  /** The thread that makes a batch. Only that thread uses the next field. */
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

  /** For tests: the source of the exceptions of its calls. */
  CallErrors errors() {
    return errors;
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

  /** Throws if no further collective can be made, or none on this thread. */
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

  // Direct calls inside a batch have been refused earlier; calls replayed by a graph are refused
  // here.
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

  /** Begins a fused all-reduce; {@link #leaveFused} must follow if this returns. */
  void enterFused(DeviceBuffer input, AllReduceFusion fusion, DeviceStream on) {
    refuseReplayInBatch();
    member.enterCall(communicator);
    try {
      BufferMemory.retain(input, fusion);
      try {
        carry(on);
      } catch (RuntimeException e) {
        BufferMemory.release(input, fusion);
        throw e;
      }
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leaveFused(DeviceBuffer input, AllReduceFusion fusion, DeviceStream on) {
    release(on);
    BufferMemory.release(input, fusion);
    member.leaveCall();
  }

  /** Begins a top-k; {@link #leaveTopK} must follow if this returns. */
  void enterTopK(DeviceBuffer input, TopK topK, DeviceStream on) {
    refuseReplayInBatch();
    member.enterCall(communicator);
    try {
      BufferMemory.retain(input, topK);
      try {
        carry(on);
      } catch (RuntimeException e) {
        BufferMemory.release(input, topK);
        throw e;
      }
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leaveTopK(DeviceBuffer input, TopK topK, DeviceStream on) {
    release(on);
    BufferMemory.release(input, topK);
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

  /** The exception to throw for an exception of the native library in a collective. */
  RuntimeException failed(CollectiveException e) {
    return errors.callFailed(e, true);
  }

  /** The exception to throw for one in a transfer or a batch. */
  RuntimeException transferFailed(CollectiveException e) {
    return errors.callFailed(e, false);
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
