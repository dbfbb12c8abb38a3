package io.nvrar.internal.call;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Checks the arguments of sends and recvs. Every message names both sides. Allocates nothing unless
 * a check fails. The native library checks the transfers of a batch against each other before it
 * moves any data.
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

  /** Checks a send or recv outside a batch. */
  public void alone(String call, DeviceBuffer buffer, int peer, DeviceStream stream) {
    collected("buffer", buffer, "peer", peer);
    device.checkStream(stream);
    if (peer == rank) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "peer is %d, this rank itself, whose %s needs its counterpart in the same batch",
              peer,
              call));
    }
  }

  public void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream stream) {
    collected("send", send, "destination", destination);
    collected("recv", recv, "source", source);
    device.checkStream(stream);
    if ((destination == rank) != (source == rank)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "destination is %d and source is %d; if one of them is this rank, %d, the other must be too",
              destination,
              source,
              rank));
    }
    if (destination == rank
        && (send.dataType() != recv.dataType() || send.count() != recv.count())) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "this rank, %d, sends itself %s[%d] and receives %s[%d]",
              rank,
              send.dataType(),
              send.count(),
              recv.dataType(),
              recv.count()));
    }
    DeviceChecks.checkApart("send", send, "recv", recv, false);
  }

  /** Checks a buffer and a rank that will become part of a batch. */
  public void collected(String bufferName, DeviceBuffer buffer, String peerName, int peer) {
    // Also checks that the buffer is open: a later check could not tell which call it belongs to.
    long unused = device.checkBuffer(bufferName, buffer).address();
    if (peer < 0 || peer >= worldSize) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s is %d, the group's ranks are 0 to %d",
              peerName,
              peer,
              worldSize - 1));
    }
  }
}
