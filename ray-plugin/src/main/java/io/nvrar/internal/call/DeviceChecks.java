package io.nvrar.internal.call;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.host.HostStream;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Checks the buffers and streams of any call. Allocates nothing unless a check fails. */
public final class DeviceChecks {
  private final Device device;

  /**
   * @param device the group's device
   */
  public DeviceChecks(Device device) {
    this.device = device;
  }

  void checkStream(@Nullable DeviceStream stream) {
    if (stream == null) {
      throw new IllegalArgumentException("stream is null, the group computes on " + device);
    }
    if (!isOurs(stream.device())) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the stream belongs to %s, the group computes on %s",
              stream.device(),
              device));
    }
    if (isClosed(stream)) {
      throw new IllegalStateException(
          "the stream is closed, a call needs an open one on " + device);
    }
  }

  private static boolean isClosed(DeviceStream stream) {
    if (stream instanceof HostStream host) {
      return host.isClosed();
    }
    return stream instanceof AsyncStream async && async.isClosed();
  }

  /** Checks that {@code buffer} is one of the group's device, and returns it. */
  DeviceBuffer checkBuffer(String name, @Nullable DeviceBuffer buffer) {
    if (buffer == null) {
      throw new IllegalArgumentException(name + " is null, a call needs a buffer");
    }
    if (!isOurs(buffer.device())) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s lives on %s, the group computes on %s",
              name,
              buffer.device(),
              device));
    }
    return buffer;
  }

  private boolean isOurs(Device other) {
    return other == device
        || (other.backend() == device.backend() && other.ordinal() == device.ordinal());
  }

  /**
   * Refuses two buffers that share memory.
   *
   * @param mayBeSame whether both may be the same elements
   */
  static void checkApart(
      String nameA, DeviceBuffer a, String nameB, DeviceBuffer b, boolean mayBeSame) {
    long aAt = a.address();
    long bAt = b.address();
    long aBytes = a.sizeBytes();
    long bBytes = b.sizeBytes();
    boolean same = mayBeSame && aAt == bAt && aBytes == bBytes;
    boolean isEmpty = aBytes == 0 || bBytes == 0;
    if (!same && !isEmpty && aAt < bAt + bBytes && bAt < aAt + aBytes) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s (%d bytes at 0x%x) and %s (%d bytes at 0x%x) overlap",
              nameA,
              aBytes,
              aAt,
              nameB,
              bBytes,
              bAt));
    }
  }
}
