package io.nvrar.internal.call;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import org.jspecify.annotations.Nullable;

/**
 * What must be true of the arguments of sends and recvs. Every complaint names both sides.
 * Allocates nothing unless it complains. What the transfers of a batch owe each other the native
 * library looks at, before it moves any.
 */
public final class TransferChecks {
  private final DeviceChecks device;
  private final int rank;
  private final int worldSize;

  public TransferChecks(DeviceChecks device, int rank, int worldSize) {
    this.device = device;
    this.rank = rank;
    this.worldSize = worldSize;
  }

  public void checkStream(@Nullable DeviceStream stream) {
    device.checkStream(stream);
  }

  /** A send or recv that stands alone. */
  public void alone(String call, DeviceBuffer buffer, int peer, DeviceStream stream) {
    collected("buffer", buffer, "peer", peer);
    device.checkStream(stream);
    if (peer == rank) {
      throw new IllegalArgumentException(
          "peer is %d, this rank itself, whose %s needs its counterpart in the same batch"
              .formatted(peer, call));
    }
  }

  public void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream stream) {
    collected("send", send, "destination", destination);
    collected("recv", recv, "source", source);
    device.checkStream(stream);
    if ((destination == rank) != (source == rank)) {
      throw new IllegalArgumentException(
          "destination is %d and source is %d, but this rank, %d, sends itself what it receives from itself"
              .formatted(destination, source, rank));
    }
    if (destination == rank
        && (send.dataType() != recv.dataType() || send.count() != recv.count())) {
      throw new IllegalArgumentException(
          "this rank, %d, sends itself %s[%d] and receives %s[%d]"
              .formatted(rank, send.dataType(), send.count(), recv.dataType(), recv.count()));
    }
    DeviceChecks.checkApart("send", send, "recv", recv, false);
  }

  /** A buffer and a rank that may become part of a batch. */
  public void collected(String bufferName, DeviceBuffer buffer, String peerName, int peer) {
    // Looks whether it is open, too: later would be too late to say which call it was.
    long unused = device.checkBuffer(bufferName, buffer).address();
    if (peer < 0 || peer >= worldSize) {
      throw new IllegalArgumentException(
          "%s is %d, the group's ranks are 0 to %d".formatted(peerName, peer, worldSize - 1));
    }
  }
}
