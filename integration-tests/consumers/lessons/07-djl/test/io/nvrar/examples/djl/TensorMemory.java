package io.nvrar.examples.djl;

import ai.djl.ndarray.NDArray;
import ai.djl.pytorch.engine.PtNDArray;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.nio.file.Path;

/**
 * Where the elements of a PyTorch array are, on the CPU or a GPU. DJL has no method for this; its
 * handles are {@code at::Tensor} pointers, which PyTorch's C interface takes.
 */
final class TensorMemory {
  private final NativeLibrary torch;

  /**
   * @param libtorch the directory of {@code libtorch_cpu.so} that DJL has loaded
   */
  TensorMemory(Path libtorch) {
    torch = NativeLibrary.getInstance(libtorch.resolve("libtorch_cpu.so").toString());
  }

  /** The address of the first element. It is valid while the array is open. */
  long address(NDArray array) {
    if (!(array instanceof PtNDArray tensor)) {
      throw new IllegalArgumentException("not an array of PyTorch's engine: " + array.getClass());
    }
    PointerByReference address = new PointerByReference();
    int error =
        torch
            .getFunction("aoti_torch_get_data_ptr")
            .invokeInt(new Object[] {new Pointer(tensor.getHandle()), address});
    if (error != 0) {
      throw new IllegalStateException("aoti_torch_get_data_ptr failed with " + error);
    }
    return Pointer.nativeValue(address.getValue());
  }
}
