package io.nvrar.internal.group;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.Call;
import io.nvrar.internal.call.TransferChecks;
import org.jspecify.annotations.Nullable;

/** A member's sends and recvs. Each runs at once, or is collected if its thread makes a batch. */
final class MemberTransfers {
  private final CallGate gate;
  private final MemberCalls calls;
  private final TransferChecks checks;
  private final DeviceStream ownStream;

  // Used only by the thread that makes the batch.
  private final Call collected = new Call();
  private @Nullable DeviceStream batchStream;

  MemberTransfers(CallGate gate, MemberCalls calls, TransferChecks checks, DeviceStream ownStream) {
    this.gate = gate;
    this.calls = calls;
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
      checks.check("buffer", buffer, "peer", peer);
      collected.addSend(buffer, peer);
    } else {
      calls.run(calls.next().send(buffer, peer), on);
    }
  }

  void recv(DeviceBuffer buffer, int peer, DeviceStream on) {
    if (gate.isCollecting()) {
      checkBatchStream("recv", on);
      checks.check("buffer", buffer, "peer", peer);
      collected.addRecv(buffer, peer);
    } else {
      calls.run(calls.next().recv(buffer, peer), on);
    }
  }

  void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream on) {
    if (gate.isCollecting()) {
      checkBatchStream("sendReceive", on);
      checks.check("send", send, "destination", destination);
      checks.check("recv", recv, "source", source);
      collected.addSend(send, destination);
      collected.addRecv(recv, source);
    } else {
      calls.run(calls.next().sendReceive(send, destination, recv, source), on);
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
      collected.batch();
      transfers.run();
      gate.endCollecting();
      calls.make(collected, on);
    } finally {
      collected.clear();
      batchStream = null;
      gate.endBatch();
    }
  }

  private void checkBatchStream(String call, DeviceStream on) {
    if (on != batchStream) {
      throw new IllegalArgumentException(
          call + " names a stream, but is inside a batch that runs on another stream");
    }
  }
}
