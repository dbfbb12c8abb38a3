package io.nvrar.bootstrap;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.device.host.HostStream;
import org.jspecify.annotations.Nullable;

/**
 * What must be true of a collective's arguments. Every complaint names both sides. Allocates
 * nothing unless it complains.
 */
final class CallChecks {
  private final Device device;
  private final int rank;
  private final int worldSize;

  CallChecks(Device device, int rank, int worldSize) {
    this.device = device;
    this.rank = rank;
    this.worldSize = worldSize;
  }

  void allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream) {
    if (op == null) {
      throw new IllegalArgumentException("op is null, allReduce needs a ReduceOp");
    }
    if (checkCommon(send, recv, stream)) {
      return;
    }
    checkSameCount(send, recv);
    checkApart(send, recv);
  }

  void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream) {
    checkCommon(send, recv, stream);
    long need = send.count() * worldSize;
    if (recv.count() != need) {
      throw new IllegalArgumentException(
          "recv holds %d elements, %d ranks x %d need %d"
              .formatted(recv.count(), worldSize, send.count(), need));
    }
    if (send.address() != recv.address() + rank * send.sizeBytes()) {
      checkApart(send, recv);
    }
  }

  void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream stream) {
    if (root < 0 || root >= worldSize) {
      throw new IllegalArgumentException(
          "root is %d, the group's ranks are 0 to %d".formatted(root, worldSize - 1));
    }
    if (rank != root) {
      // send is read on the root only; elsewhere it may be anything.
      checkBuffer("recv", recv);
      checkStream(stream);
      return;
    }
    if (checkCommon(send, recv, stream)) {
      return;
    }
    checkSameCount(send, recv);
    checkApart(send, recv);
  }

  void checkStream(@Nullable DeviceStream stream) {
    if (stream == null) {
      throw new IllegalArgumentException("stream is null, the group computes on " + device);
    }
    if (!isOurs(stream.device())) {
      throw new IllegalArgumentException(
          "the stream belongs to %s, the group computes on %s".formatted(stream.device(), device));
    }
    if (stream instanceof HostStream host && host.isClosed()) {
      throw new IllegalStateException(
          "the stream is closed, a collective needs an open one on " + device);
    }
  }

  /** Whether both are one buffer, so that there is no more to check. */
  private boolean checkCommon(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream) {
    checkBuffer("send", send);
    checkStream(stream);
    if (send == recv) {
      return true;
    }
    checkBuffer("recv", recv);
    if (send.dataType() != recv.dataType()) {
      throw new IllegalArgumentException(
          "send holds %s, recv holds %s".formatted(send.dataType(), recv.dataType()));
    }
    return false;
  }

  private void checkBuffer(String name, @Nullable DeviceBuffer buffer) {
    if (buffer == null) {
      throw new IllegalArgumentException(name + " is null, a collective needs a buffer");
    }
    if (!isOurs(buffer.device())) {
      throw new IllegalArgumentException(
          "%s lives on %s, the group computes on %s".formatted(name, buffer.device(), device));
    }
  }

  private boolean isOurs(Device other) {
    return other == device
        || (other.backend() == device.backend() && other.ordinal() == device.ordinal());
  }

  private static void checkSameCount(DeviceBuffer send, DeviceBuffer recv) {
    if (send.count() != recv.count()) {
      throw new IllegalArgumentException(
          "send holds %d elements, recv holds %d".formatted(send.count(), recv.count()));
    }
  }

  private static void checkApart(DeviceBuffer send, DeviceBuffer recv) {
    long sendAt = send.address();
    long recvAt = recv.address();
    long sendBytes = send.sizeBytes();
    long recvBytes = recv.sizeBytes();
    boolean same = sendAt == recvAt && sendBytes == recvBytes;
    if (!same && sendAt < recvAt + recvBytes && recvAt < sendAt + sendBytes) {
      throw new IllegalArgumentException(
          "send (%d bytes at 0x%x) and recv (%d bytes at 0x%x) overlap"
              .formatted(sendBytes, sendAt, recvBytes, recvAt));
    }
  }
}
