package io.nvrar.bootstrap;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.TransferList;
import org.jspecify.annotations.Nullable;

/**
 * What must be true of the arguments of sends and recvs. Every complaint names both sides.
 * Allocates nothing unless it complains.
 */
final class TransferChecks {
  private final DeviceChecks device;
  private final int rank;
  private final int worldSize;

  TransferChecks(DeviceChecks device, int rank, int worldSize) {
    this.device = device;
    this.rank = rank;
    this.worldSize = worldSize;
  }

  void checkStream(@Nullable DeviceStream stream) {
    device.checkStream(stream);
  }

  /** A send or recv that stands alone. */
  void alone(String call, DeviceBuffer buffer, int peer, DeviceStream stream) {
    collected("buffer", buffer, "peer", peer);
    device.checkStream(stream);
    if (peer == rank) {
      throw new IllegalArgumentException(
          "peer is %d, this rank itself, whose %s needs its counterpart in the same batch"
              .formatted(peer, call));
    }
  }

  void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream stream) {
    collected("send", send, "destination", destination);
    collected("recv", recv, "source", source);
    device.checkStream(stream);
    if ((destination == rank) != (source == rank)) {
      throw new IllegalArgumentException(
          "destination is %d and source is %d, but this rank, %d, sends itself what it receives from itself"
              .formatted(destination, source, rank));
    }
    if (destination == rank) {
      checkSelf(send, recv);
    }
    DeviceChecks.checkApart("send", send, "recv", recv, false);
  }

  /** A buffer and a rank that become part of a batch. */
  void collected(String bufferName, DeviceBuffer buffer, String peerName, int peer) {
    // Looks whether it is open, too: later would be too late to say which call it was.
    long unused = device.checkBuffer(bufferName, buffer).address();
    if (peer < 0 || peer >= worldSize) {
      throw new IllegalArgumentException(
          "%s is %d, the group's ranks are 0 to %d".formatted(peerName, peer, worldSize - 1));
    }
  }

  /** All transfers of a batch, each of which was looked at alone. */
  void batch(TransferList transfers) {
    int size = transfers.size();
    int nextSelfRecv = 0;
    for (int i = 0; i < size; i++) {
      if (transfers.isSend(i) && transfers.peer(i) == rank) {
        nextSelfRecv = checkSelf(transfers, i, nextSelfRecv);
      } else if (!transfers.isSend(i)) {
        checkRecvIsApart(transfers, i);
      }
    }
    int left = nextSelfRecv(transfers, nextSelfRecv);
    if (left < size) {
      throw new IllegalArgumentException(
          "the batch receives %s from this rank, %d, itself, but sends it no counterpart"
              .formatted(describe(transfers.buffer(left)), rank));
    }
  }

  /** Returns where to look for the next recv from this rank itself. */
  private int checkSelf(TransferList transfers, int send, int nextSelfRecv) {
    int recv = nextSelfRecv(transfers, nextSelfRecv);
    if (recv == transfers.size()) {
      throw new IllegalArgumentException(
          "the batch sends %s to this rank, %d, itself, but receives no counterpart"
              .formatted(describe(transfers.buffer(send)), rank));
    }
    checkSelf(transfers.buffer(send), transfers.buffer(recv));
    return recv + 1;
  }

  private void checkSelf(DeviceBuffer send, DeviceBuffer recv) {
    if (send.dataType() != recv.dataType() || send.count() != recv.count()) {
      throw new IllegalArgumentException(
          "this rank, %d, sends itself %s and receives %s"
              .formatted(rank, describe(send), describe(recv)));
    }
  }

  /** The place of the next recv from this rank itself; the list's size if there is none. */
  private int nextSelfRecv(TransferList transfers, int from) {
    int i = from;
    while (i < transfers.size() && (transfers.isSend(i) || transfers.peer(i) != rank)) {
      i++;
    }
    return i;
  }

  private static void checkRecvIsApart(TransferList transfers, int recv) {
    DeviceBuffer target = transfers.buffer(recv);
    for (int i = 0; i < transfers.size(); i++) {
      // Two recvs are compared once.
      if (i < recv || transfers.isSend(i)) {
        DeviceChecks.checkApart(
            transfers.isSend(i) ? "a send" : "a recv",
            transfers.buffer(i),
            "a recv of the same batch",
            target,
            false);
      }
    }
  }

  private static String describe(DeviceBuffer buffer) {
    return buffer.dataType() + "[" + buffer.count() + "]";
  }
}
