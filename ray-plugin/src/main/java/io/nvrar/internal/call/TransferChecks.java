package io.nvrar.internal.call;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.Call;
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
  void alone(Call call, @Nullable DeviceStream stream) {
    check("buffer", call.buffer(0), "peer", call.peer(0));
    device.checkStream(stream);
    if (call.peer(0) == rank) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "peer is %d, this rank itself, whose %s needs its counterpart in the same batch",
              rank,
              call.method()));
    }
  }

  void sendReceive(Call call, @Nullable DeviceStream stream) {
    int destination = call.peer(0);
    int source = call.peer(1);
    check("send", call.buffer(0), "destination", destination);
    check("recv", call.buffer(1), "source", source);
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
    DeviceBuffer send = call.send();
    DeviceBuffer recv = call.recv();
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

  /** Checks a buffer and a rank, also one that will become part of a batch. */
  public void check(String bufferName, @Nullable DeviceBuffer buffer, String peerName, int peer) {
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
