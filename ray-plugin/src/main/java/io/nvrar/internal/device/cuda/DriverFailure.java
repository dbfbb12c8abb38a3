package io.nvrar.internal.device.cuda;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import java.util.Objects;
import jcuda.CudaException;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** Maps a status of the driver to a Java exception. */
public final class DriverFailure {
  /** Access to a peer's memory failed. New in CUDA 12.9, so JCuda does not have it. */
  private static final int CUDA_ERROR_CONTAINED = 226;

  /** The highest status value. */
  private static final int MAX_STATUS = 999;

  private DriverFailure() {}

  /**
   * The exception for a failed call.
   *
   * @param function the function's name in the driver's documentation
   * @param where the device
   */
  public static RuntimeException of(String function, Object where, int status) {
    String message = function + " failed on " + where + " with " + describe(status);
    return switch (status) {
      case CUresult.CUDA_ERROR_DEINITIALIZED,
          CUresult.CUDA_ERROR_ECC_UNCORRECTABLE,
          CUresult.CUDA_ERROR_NVLINK_UNCORRECTABLE,
          CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
          CUresult.CUDA_ERROR_LAUNCH_TIMEOUT,
          CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,
          CUresult.CUDA_ERROR_ASSERT,
          CUresult.CUDA_ERROR_HARDWARE_STACK_ERROR,
          CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
          CUresult.CUDA_ERROR_MISALIGNED_ADDRESS,
          CUresult.CUDA_ERROR_INVALID_ADDRESS_SPACE,
          CUresult.CUDA_ERROR_INVALID_PC,
          CUresult.CUDA_ERROR_LAUNCH_FAILED,
          CUDA_ERROR_CONTAINED,
          CUresult.CUDA_ERROR_MPS_CLIENT_TERMINATED,
          CUresult.CUDA_ERROR_EXTERNAL_DEVICE ->
          new CollectiveFatalException(
              message
                  + "; work on the GPU has broken this process's context, and the process must end");
      case CUresult.CUDA_ERROR_INVALID_VALUE,
          CUresult.CUDA_ERROR_INVALID_CONTEXT,
          CUresult.CUDA_ERROR_INVALID_HANDLE,
          CUresult.CUDA_ERROR_ILLEGAL_STATE,
          CUresult.CUDA_ERROR_NOT_READY,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_MERGE,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          CUresult.CUDA_ERROR_CAPTURED_EVENT,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ->
          new IllegalStateException(message);
      default -> new CollectiveException(message);
    };
  }

  /** Describes a status: name, number, text. */
  public static String describe(int status) {
    String name =
        Objects.requireNonNullElse(
            text(JCudaDriver::cuGetErrorName, status), CUresult.stringFor(status));
    String text = text(JCudaDriver::cuGetErrorString, status);
    return name + " (" + status + (text == null ? ")" : ": " + text + ")");
  }

  /** The status of a JCuda exception, which contains only the status's name. */
  static int statusOf(CudaException e) {
    String name = String.valueOf(e.getMessage());
    for (int status = 0; status <= MAX_STATUS; status++) {
      // For a status that JCuda does not know, the name contains the number.
      if (name.equals(CUresult.stringFor(status))) {
        return status;
      }
    }
    throw e;
  }

  // The driver knows the names of its own version, JCuda those of CUDA 12.0.
  private static @Nullable String text(TextOfStatus function, int status) {
    String[] text = new String[1];
    int found = DriverCall.status(() -> function.get(status, text));
    return found == CUresult.CUDA_SUCCESS ? text[0] : null;
  }

  private interface TextOfStatus {
    int get(int status, String[] text);
  }
}
