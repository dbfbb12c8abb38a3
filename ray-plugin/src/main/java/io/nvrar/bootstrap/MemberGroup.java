package io.nvrar.bootstrap;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import io.nvrar.device.host.HostMemory;
import io.nvrar.device.host.HostStream;
import io.nvrar.internal.NativeCommunicator;
import org.jspecify.annotations.Nullable;

/**
 * A member as its user sees it: checks arguments, calls the native library, and turns what went
 * wrong there into what the whole group knows about it.
 */
final class MemberGroup implements CollectiveGroup {
  private final Ticket ticket;
  private final int rank;
  private final Backend backend;
  private final Device device;
  private final DeviceStream stream;
  private final NativeCommunicator communicator;
  private final Member member;
  private final CallChecks checks;
  private final @Nullable Rendezvous hub;

  /**
   * @param hub ends with this member; null but on rank 0
   */
  MemberGroup(
      Ticket ticket,
      int rank,
      Backend backend,
      Device device,
      NativeCommunicator communicator,
      Member member,
      @Nullable Rendezvous hub) {
    this.ticket = ticket;
    this.rank = rank;
    this.backend = backend;
    this.device = device;
    this.communicator = communicator;
    this.member = member;
    this.hub = hub;
    stream = device.createStream();
    checks = new CallChecks(device, rank, ticket.worldSize());
    GroupLeak.watch(this, member);
  }

  @Override
  public String name() {
    return ticket.name();
  }

  @Override
  public int rank() {
    return rank;
  }

  @Override
  public int worldSize() {
    return ticket.worldSize();
  }

  @Override
  public Backend backend() {
    return backend;
  }

  @Override
  public GroupConfig config() {
    return ticket.config();
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public DeviceStream stream() {
    return stream;
  }

  @Override
  public void allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream on) {
    member.checkCallable(communicator);
    checks.allReduce(send, recv, op, on);
    if (on.isCapturing()) {
      record(on, () -> allReduceNow(send, recv, op, on));
    } else {
      allReduceNow(send, recv, op, on);
    }
  }

  // A graph comes here at every launch, when the group may have failed or a buffer may be closed.
  private void allReduceNow(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream on) {
    enter(send, recv);
    try {
      communicator.allReduce(
          send.address(),
          recv.address(),
          send.count(),
          send.dataType().code(),
          op.code(),
          on.handle());
    } catch (CollectiveException e) {
      throw member.callFailed(e);
    } finally {
      leave(send, recv);
    }
  }

  @Override
  public void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    member.checkCallable(communicator);
    checks.allGather(send, recv, on);
    if (on.isCapturing()) {
      record(on, () -> allGatherNow(send, recv, on));
    } else {
      allGatherNow(send, recv, on);
    }
  }

  private void allGatherNow(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    enter(send, recv);
    try {
      communicator.allGather(
          send.address(), recv.address(), send.count(), send.dataType().code(), on.handle());
    } catch (CollectiveException e) {
      throw member.callFailed(e);
    } finally {
      leave(send, recv);
    }
  }

  @Override
  public void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream on) {
    member.checkCallable(communicator);
    checks.broadcast(send, recv, root, on);
    DeviceBuffer source = rank == root ? send : recv;
    if (on.isCapturing()) {
      record(on, () -> broadcastNow(source, recv, root, on));
    } else {
      broadcastNow(source, recv, root, on);
    }
  }

  private void broadcastNow(DeviceBuffer source, DeviceBuffer recv, int root, DeviceStream on) {
    enter(source, recv);
    try {
      communicator.broadcast(
          source.address(),
          recv.address(),
          recv.count(),
          recv.dataType().code(),
          root,
          on.handle());
    } catch (CollectiveException e) {
      throw member.callFailed(e);
    } finally {
      leave(source, recv);
    }
  }

  @Override
  public void barrier(DeviceStream on) {
    member.checkCallable(communicator);
    checks.checkStream(on);
    if (on.isCapturing()) {
      record(on, () -> barrierNow(on));
    } else {
      barrierNow(on);
    }
  }

  private void barrierNow(DeviceStream on) {
    member.enterCall(communicator);
    try {
      communicator.barrier(on.handle());
    } catch (CollectiveException e) {
      throw member.callFailed(e);
    } finally {
      member.leaveCall();
    }
  }

  /** Begins a call with buffers that stay allocated until {@link #leave}, whoever closes them. */
  private void enter(DeviceBuffer send, DeviceBuffer recv) {
    member.enterCall(communicator);
    try {
      HostMemory.retain(send, recv);
    } catch (RuntimeException e) {
      member.leaveCall();
      throw e;
    }
  }

  private void leave(DeviceBuffer send, DeviceBuffer recv) {
    HostMemory.release(send, recv);
    member.leaveCall();
  }

  private static void record(DeviceStream on, Runnable call) {
    // Only the host's streams record in Java; a GPU's capture sees the launch itself.
    if (on instanceof HostStream host) {
      host.submit(call);
    } else {
      call.run();
    }
  }

  @Override
  public void throwIfFailed() {
    member.throwIfFailed();
  }

  @Override
  public void abort(String reason) {
    member.fail(
        Failure.of(
            Failure.Kind.ABORTED,
            "rank %d (%s) aborted %s: %s"
                .formatted(rank, ProcessIdentity.current(), ticket.label(), reason)),
        true);
  }

  @Override
  public boolean isClosed() {
    return member.isClosing();
  }

  @Override
  public void close() {
    member.beginClose();
    member.awaitFreed(ticket.config().joinTimeout().toNanos());
    stream.close();
    Joining.endHub(hub, ticket);
  }

  @Override
  public String toString() {
    return "%s[rank %d of %d, %s]".formatted(ticket.label(), rank, ticket.worldSize(), backend);
  }
}
