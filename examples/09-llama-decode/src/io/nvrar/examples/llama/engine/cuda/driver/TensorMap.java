package io.nvrar.examples.llama.engine.cuda.driver;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.cuda.KernelArguments;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Locale;

/**
 * How the tensor memory accelerator reads boxes of a tensor: rows of 128 bytes, swizzled, zeros
 * outside the tensor.
 */
public final class TensorMap {
  private static final int BYTES = 128;
  private static final int ALIGNMENT = 64;

  // CUtensorMapSwizzle, CUtensorMapL2promotion
  private static final int SWIZZLE_128 = 3;
  private static final int L2_PROMOTION_256 = 3;

  /** The driver's {@code CUtensorMap}. */
  private final ByteBuffer descriptor;

  private TensorMap(ByteBuffer descriptor) {
    this.descriptor = descriptor;
  }

  /**
   * Describes a tensor.
   *
   * @param buffer its memory: BFLOAT16 or FLOAT16, at a multiple of 16 bytes
   * @param dimensions elements of each dimension, the one that is adjacent in memory first
   * @param stridesBytes bytes from one index of a dimension to the next, without the first
   *     dimension, whose elements are adjacent; multiples of 16
   * @param box elements of a box in each dimension, at most 256; in the first 128 bytes
   */
  public static TensorMap encode(
      Gpu gpu, DeviceBuffer buffer, long[] dimensions, long[] stridesBytes, int[] box) {
    ByteBuffer descriptor =
        ByteBuffer.allocateDirect(BYTES + ALIGNMENT)
            .alignedSlice(ALIGNMENT)
            .slice(0, BYTES)
            .order(ByteOrder.nativeOrder());
    int[] elementStrides = new int[dimensions.length];
    Arrays.fill(elementStrides, 1);
    gpu.enter();
    int status =
        Driver.cuTensorMapEncodeTiled(
            descriptor,
            code(buffer.dataType()),
            dimensions.length,
            buffer.address(),
            dimensions,
            stridesBytes,
            box,
            elementStrides,
            0,
            SWIZZLE_128,
            L2_PROMOTION_256,
            0);
    if (status != 0) {
      Driver.check(
          "cuTensorMapEncodeTiled",
          String.format(
              Locale.ROOT,
              "%s of %s at 0x%x with strides of %s bytes and boxes of %s on %s",
              buffer.dataType(),
              Arrays.toString(dimensions),
              buffer.address(),
              Arrays.toString(stridesBytes),
              Arrays.toString(box),
              gpu),
          status);
    }
    return new TensorMap(descriptor);
  }

  /** Adds it as a parameter of its own. */
  public KernelArguments put(KernelArguments arguments) {
    return arguments.parameter().struct(descriptor, ALIGNMENT);
  }

  // CUtensorMapDataType
  private static int code(DataType type) {
    return switch (type) {
      case FLOAT16 -> 6;
      case BFLOAT16 -> 9;
      default -> throw new IllegalArgumentException("no tensor map is made of " + type);
    };
  }
}
