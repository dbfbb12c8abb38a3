package io.nvrar.device;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import io.nvrar.device.host.HostDevice;
import io.nvrar.internal.NativeCommunicator;
import org.jspecify.annotations.Nullable;

/** Which backends can run in this process, and their devices. */
public final class Devices {

  private Devices() {}

  /** The backend that {@link Backend#AUTO} stands for in this process; any other is itself. */
  public static Backend resolve(Backend backend) {
    return switch (backend) {
      case AUTO, CPU -> Backend.CPU;
      case CUDA -> Backend.CUDA;
    };
  }

  /**
   * A device of this process.
   *
   * @param backend AUTO is resolved first
   * @param ordinal the device's number in this process; the host is one device and takes any
   * @throws BackendUnavailableException if the backend cannot run here
   */
  public static Device open(Backend backend, int ordinal) {
    Backend resolved = resolve(backend);
    BackendUnavailableException cause = unavailabilityCause(resolved);
    if (cause != null) {
      throw cause;
    }
    return HostDevice.instance();
  }

  /**
   * Why a backend cannot run in this process; null if it can.
   *
   * @param backend AUTO is resolved first
   */
  public static @Nullable BackendUnavailableException unavailabilityCause(Backend backend) {
    return switch (resolve(backend)) {
      case AUTO, CPU -> cpuUnavailabilityCause();
      case CUDA ->
          new BackendUnavailableException(
              "the CUDA backend is not part of this version; choose AUTO or CPU");
    };
  }

  private static @Nullable BackendUnavailableException cpuUnavailabilityCause() {
    try {
      NativeCommunicator.ensureAvailable(Backend.CPU);
      return null;
    } catch (BackendUnavailableException e) {
      return e;
    }
  }
}
