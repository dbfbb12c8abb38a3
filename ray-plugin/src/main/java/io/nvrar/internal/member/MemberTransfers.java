package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.TransferList;
import io.nvrar.internal.call.TransferChecks;
import org.jspecify.annotations.Nullable;

/** A member's sends and recvs. Each runs at once, or is collected if its thread makes a batch. */
final class MemberTransfers {
  private final CallGate gate;
  private final TransferChecks checks;
  private final DeviceStream ownStream;

  // Used only by the thread that makes the batch.
  private final TransferList collected = new TransferList();
  private @Nullable DeviceStream batchStream;

  MemberTransfers(CallGate gate, TransferChecks checks, DeviceStream ownStream) {
    this.gate = gate;
    this.checks = checks;
    this.ownStream = ownStream;
  }

  /** The stream of a transfer whose caller passes none. */
  DeviceStream defaultStream() {
    DeviceStream ofBatch = gate.isCollecting() ? batchStream : null;
    return ofBatch == null ? ownStream : ofBatch;
  }

  void send(DeviceBuffer buffer, int peer, DeviceStream on) {
    if (gate.isCollecting()) {
      checkBatchStream("send", on);
      checks.collected("buffer", buffer, "peer", peer);
      collected.addSend(buffer, peer);
      return;
    }
    gate.checkTransferable();
    checks.alone("send", buffer, peer, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> sendNow(buffer, peer, on));
    } else {
      sendNow(buffer, peer, on);
    }
  }

  // Called by a graph at every launch, when the group may have failed or a buffer may be closed.
  private void sendNow(DeviceBuffer buffer, int peer, DeviceStream on) {
    gate.enterTransfer(buffer, null, on);
    try {
      gate.communicator()
          .send(buffer.address(), buffer.count(), buffer.dataType().code(), peer, on.handle());
    } catch (CollectiveException e) {
      throw gate.transferFailed(e);
    } finally {
      gate.leave(buffer, null, on);
    }
  }

  void recv(DeviceBuffer buffer, int peer, DeviceStream on) {
    if (gate.isCollecting()) {
      checkBatchStream("recv", on);
      checks.collected("buffer", buffer, "peer", peer);
      collected.addRecv(buffer, peer);
      return;
    }
    gate.checkTransferable();
    checks.alone("recv", buffer, peer, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> recvNow(buffer, peer, on));
    } else {
      recvNow(buffer, peer, on);
    }
  }

  private void recvNow(DeviceBuffer buffer, int peer, DeviceStream on) {
    gate.enterTransfer(null, buffer, on);
    try {
      gate.communicator()
          .recv(buffer.address(), buffer.count(), buffer.dataType().code(), peer, on.handle());
    } catch (CollectiveException e) {
      throw gate.transferFailed(e);
    } finally {
      gate.leave(null, buffer, on);
    }
  }

  void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream on) {
    if (gate.isCollecting()) {
      checkBatchStream("sendReceive", on);
      checks.collected("send", send, "destination", destination);
      checks.collected("recv", recv, "source", source);
      collected.addSend(send, destination);
      collected.addRecv(recv, source);
      return;
    }
    gate.checkTransferable();
    checks.sendReceive(send, destination, recv, source, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> sendReceiveNow(send, destination, recv, source, on));
    } else {
      sendReceiveNow(send, destination, recv, source, on);
    }
  }

  private void sendReceiveNow(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream on) {
    gate.enterTransfer(send, recv, on);
    try {
      gate.communicator().sendReceive(send, destination, recv, source, on.handle());
    } catch (CollectiveException e) {
      throw gate.transferFailed(e);
    } finally {
      gate.leave(send, recv, on);
    }
  }

  void batch(Runnable transfers, DeviceStream on) {
    gate.refuseInBatch("batch");
    gate.checkTransferable();
    checks.checkStream(on);
    if (transfers == null) {
      throw new IllegalArgumentException(
          "transfers is null, batch needs a Runnable that calls them");
    }
    if (!gate.beginBatch()) {
      throw new IllegalStateException(
          "batch was called while another thread makes a batch of the same group");
    }
    try {
      batchStream = on;
      transfers.run();
      gate.endCollecting();
      if (CallGate.records(on)) {
        TransferList recorded = collected.copy();
        CallGate.record(on, () -> batchNow(recorded, on));
      } else {
        batchNow(collected, on);
      }
    } finally {
      collected.clear();
      batchStream = null;
      gate.endBatch();
    }
  }

  private void batchNow(TransferList transfers, DeviceStream on) {
    gate.enterTransfers(transfers, on);
    try {
      gate.communicator().batch(transfers, on.handle());
    } catch (CollectiveException e) {
      throw gate.transferFailed(e);
    } finally {
      gate.leave(transfers, on);
    }
  }

  private void checkBatchStream(String call, DeviceStream on) {
    if (on != batchStream) {
      throw new IllegalArgumentException(
          call + " names a stream, but is inside a batch that runs on another stream");
    }
  }
}
