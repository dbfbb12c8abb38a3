package io.nvrar.internal.device.cuda;

import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * The GPUs of this process. The driver is initialised once, on first use. Each GPU's primary
 * context, which is shared with the CUDA runtime and NVSHMEM, is retained once and never released.
 * The first GPU is that which {@link NearCores} pins the process to.
 */
public final class CudaDevices {
  private static final String WHAT = "the CUDA backend cannot run here";

  /**
   * {@code -Dnvrar.sharedDevices}: whether several members of this process may share one GPU; for
   * tests. Work of one member may wait for work that another has not submitted yet, so a member
   * must never wait for everything that runs on the GPU.
   */
  private static final boolean SHARED = Boolean.getBoolean("nvrar.sharedDevices");

  /** The opened devices by ordinal. They are never closed, because buffers may be in use. */
  private static final Map<Integer, CudaDevice> OPEN = new TreeMap<>();

  private CudaDevices() {}

  /** Why no GPU can be used from Java in this process; null if one can. */
  public static @Nullable BackendUnavailableException unavailabilityCause() {
    return Driver.OUTCOME.toException();
  }

  /**
   * A GPU of this process; the same object for the same ordinal, unless members share it.
   *
   * @param ordinal among those that {@code CUDA_VISIBLE_DEVICES} lets this process see
   * @throws BackendUnavailableException if there is no such GPU, it cannot be used, or it is open
   *     already under another ordinal
   */
  public static Device open(int ordinal) {
    BackendUnavailableException cause = unavailabilityCause();
    if (cause != null) {
      throw cause;
    }
    synchronized (OPEN) {
      CudaDevice device = OPEN.get(ordinal);
      if (device == null) {
        boolean isFirst = OPEN.isEmpty();
        device = openNew(ordinal);
        OPEN.put(ordinal, device);
        if (isFirst) {
          NearCores.pinIfAsked(device.context());
        }
      }
      return SHARED ? device.forAnother() : device;
    }
  }

  /**
   * How many GPUs this process sees.
   *
   * @throws BackendUnavailableException if no GPU can be used from Java in this process
   */
  public static int count() {
    BackendUnavailableException cause = unavailabilityCause();
    if (cause != null) {
      throw cause;
    }
    int[] count = new int[1];
    DriverCall.check("cuDeviceGetCount", "this machine", () -> JCudaDriver.cuDeviceGetCount(count));
    return count[0];
  }

  private static CudaDevice openNew(int ordinal) {
    int count = count();
    if (ordinal < 0 || ordinal >= count) {
      throw new BackendUnavailableException(
          String.format(
              Locale.ROOT,
              "there is no GPU %d in this process, it sees %d, from 0 to %d%s",
              ordinal,
              count,
              count - 1,
              visible()));
    }
    GpuContext context = GpuContext.retain(ordinal);
    for (CudaDevice other : OPEN.values()) {
      if (other.context().uuid().equals(context.uuid())) {
        context.release();
        throw new BackendUnavailableException(
            String.format(
                Locale.ROOT,
                "GPU %d is the GPU that this process has opened as GPU %d (UUID %s)%s",
                ordinal,
                other.ordinal(),
                context.uuid(),
                visible()));
      }
    }
    return SHARED ? CudaDevice.shared(context) : CudaDevice.of(context);
  }

  /** CUDA_VISIBLE_DEVICES is the usual reason why a GPU is not visible. */
  private static String visible() {
    String value = System.getenv("CUDA_VISIBLE_DEVICES");
    return value == null ? "" : "; CUDA_VISIBLE_DEVICES is \"" + value + "\"";
  }

  private record Outcome(@Nullable String problem, @Nullable Throwable cause) {
    @Nullable BackendUnavailableException toException() {
      return problem == null ? null : new BackendUnavailableException(problem, cause);
    }
  }

  /**
   * Initialises the driver once, on first use: a JCuda class whose initialisation failed cannot be
   * initialised again.
   */
  private static final class Driver {
    static final Outcome OUTCOME = start();

    private Driver() {}

    private static Outcome start() {
      try {
        JCudaLoader.load();
        int status = DriverCall.status(() -> JCudaDriver.cuInit(0));
        return new Outcome(problem(status), null);
      } catch (BackendUnavailableException e) {
        return new Outcome(e.getMessage(), e.getCause());
      } catch (LinkageError e) {
        return new Outcome(WHAT + ": JCuda cannot be started (" + e.getMessage() + ")", e);
      }
    }

    private static @Nullable String problem(int status) {
      return switch (status) {
        case CUresult.CUDA_SUCCESS -> null;
        case CUresult.CUDA_ERROR_NO_DEVICE ->
            WHAT + ": NVIDIA's driver is installed, but this process sees no GPU" + visible();
        default -> WHAT + ": cuInit failed with " + DriverFailure.describe(status);
      };
    }
  }
}
