package io.nvrar.device;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.internal.device.host.HostDevice;
import org.jspecify.annotations.Nullable;

/** The backends that can run in this process, and their devices. Thread-safe. */
public final class Devices {

  private Devices() {}

  /**
   * The backend that {@link Backend#AUTO} stands for in this process: {@link Backend#CUDA} if it
   * can run, else {@link Backend#CPU}. Any other backend is returned unchanged.
   */
  public static Backend resolve(Backend backend) {
    return switch (backend) {
      case AUTO -> cudaUnavailabilityCause() == null ? Backend.CUDA : Backend.CPU;
      case CPU, CUDA -> backend;
    };
  }

  /**
   * Opens a device of this process.
   *
   * @param backend the backend; AUTO is resolved first
   * @param ordinal the device's ordinal in this process; ignored for the host, which is one device
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
   * The number of devices of a backend in this process: the GPUs visible through {@code
   * CUDA_VISIBLE_DEVICES}, or 1 for the host.
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
   * Why a backend cannot run in this process; null if it can. Does not load CUDA unless asked about
   * CUDA or AUTO.
   *
   * @param backend AUTO is resolved first
   */
  public static @Nullable BackendUnavailableException unavailabilityCause(Backend backend) {
    return switch (resolve(backend)) {
      case AUTO, CPU -> nativeUnavailabilityCause(Backend.CPU);
      case CUDA -> cudaUnavailabilityCause();
    };
  }

  // The native library is asked first: if it has no CUDA, JCuda is not loaded.
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
