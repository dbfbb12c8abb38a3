package io.nvrar.bootstrap;

import io.nvrar.CollectiveException;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.device.host.HostMemory;
import io.nvrar.device.host.HostStream;
import io.nvrar.internal.NativeCommunicator;
import io.nvrar.internal.TransferList;
import org.jspecify.annotations.Nullable;

/**
 * The way into and out of the native library that every call takes: looks whether the group still
 * makes calls, and keeps the buffers allocated, whoever closes them. Allocates nothing.
 */
final class CallGate {
  private final Member member;
  private final NativeCommunicator communicator;

  CallGate(Member member, NativeCommunicator communicator) {
    this.member = member;
    this.communicator = communicator;
  }

  NativeCommunicator communicator() {
    return communicator;
  }

  /** Throws if no further collective can be made. */
  void checkCallable() {
    member.checkCallable(communicator);
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    member.checkTransferable();
  }

  /** Begins a collective; {@link #leave} must follow if this returns. */
  void enter(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv) {
    member.enterCall(communicator);
    retain(send, recv);
  }

  /** Begins a transfer; {@link #leave} must follow if this returns. */
  void enterTransfer(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv) {
    member.enterTransfer();
    retain(send, recv);
  }

  private void retain(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv) {
    try {
      HostMemory.retain(send, recv);
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leave(@Nullable DeviceBuffer send, @Nullable DeviceBuffer recv) {
    HostMemory.release(send, recv);
    member.leaveCall();
  }

  /** Begins a batch; {@link #leave(TransferList)} must follow if this returns. */
  void enterTransfers(TransferList transfers) {
    member.enterTransfer();
    try {
      HostMemory.retainAll(transfers);
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  void leave(TransferList transfers) {
    HostMemory.releaseAll(transfers);
    member.leaveCall();
  }

  /** What to throw for what the native library has thrown. */
  RuntimeException failed(CollectiveException e) {
    return member.callFailed(e);
  }

  /** Has a capturing stream record a call. */
  static void record(DeviceStream on, Runnable call) {
    // Only the host's streams record in Java; a GPU's capture sees the launch itself.
    if (on instanceof HostStream host) {
      host.submit(call);
    } else {
      call.run();
    }
  }
}
