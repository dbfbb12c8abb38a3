package io.nvrar.device;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.internal.device.host.HostDevice;
import org.jspecify.annotations.Nullable;

/** Which backends can run in this process, and their devices. */
public final class Devices {

  private Devices() {}

  /**
   * The backend that {@link Backend#AUTO} stands for in this process: {@link Backend#CUDA} where it
   * can run, else {@link Backend#CPU}; any other is itself.
   */
  public static Backend resolve(Backend backend) {
    return switch (backend) {
      case AUTO -> cudaUnavailabilityCause() == null ? Backend.CUDA : Backend.CPU;
      case CPU, CUDA -> backend;
    };
  }

  /**
   * A device of this process.
   *
   * @param backend AUTO is resolved first
   * @param ordinal the device's number in this process; the host is one device and takes any
   * @throws BackendUnavailableException if the backend cannot run here, or there is no such device
   */
  public static Device open(Backend backend, int ordinal) {
    Backend resolved = resolve(backend);
    BackendUnavailableException cause = unavailabilityCause(resolved);
    if (cause != null) {
      throw cause;
    }
    return resolved == Backend.CUDA ? CudaDevices.open(ordinal) : HostDevice.instance();
  }

  /**
   * How many devices a backend has in this process: the GPUs that {@code CUDA_VISIBLE_DEVICES} lets
   * it see, or the one host.
   *
   * @param backend AUTO is resolved first
   * @throws BackendUnavailableException if the backend cannot run here
   */
  public static int count(Backend backend) {
    Backend resolved = resolve(backend);
    BackendUnavailableException cause = unavailabilityCause(resolved);
    if (cause != null) {
      throw cause;
    }
    return resolved == Backend.CUDA ? CudaDevices.count() : 1;
  }

  /**
   * Why a backend cannot run in this process; null if it can. Nothing of CUDA is loaded unless it
   * is asked for.
   *
   * @param backend AUTO is resolved first
   */
  public static @Nullable BackendUnavailableException unavailabilityCause(Backend backend) {
    return switch (resolve(backend)) {
      case AUTO, CPU -> nativeUnavailabilityCause(Backend.CPU);
      case CUDA -> cudaUnavailabilityCause();
    };
  }

  // The native part first: where it has no CUDA, nothing of JCuda need be loaded.
  private static @Nullable BackendUnavailableException cudaUnavailabilityCause() {
    BackendUnavailableException cause = nativeUnavailabilityCause(Backend.CUDA);
    return cause == null ? CudaDevices.unavailabilityCause() : cause;
  }

  private static @Nullable BackendUnavailableException nativeUnavailabilityCause(Backend backend) {
    try {
      NativeCommunicator.ensureAvailable(backend);
      return null;
    } catch (BackendUnavailableException e) {
      return e;
    }
  }
}
