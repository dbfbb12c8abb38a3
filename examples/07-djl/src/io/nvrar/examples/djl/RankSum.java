package io.nvrar.examples.djl;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;

/**
 * Sums arrays of one shape over the ranks of a group on the CPU. Every rank gets the same bits.
 * Made once, so that a step of decode allocates no buffer; used by one thread at a time. PyTorch
 * refuses to change an array that requires a gradient, except in the thread that loaded it.
 */
final class RankSum implements AutoCloseable {
  private final CollectiveGroup group;
  private final Shape shape;
  private final DataType dataType;
  private final DeviceBuffer buffer;

  /** The buffer's memory, valid until {@link #close}. */
  private final ByteBuffer bytes;

  /**
   * @throws IllegalArgumentException if the group is not on the CPU, or has no sum of this type
   */
  RankSum(CollectiveGroup group, Shape shape, DataType dataType) {
    if (group.device().backend() != Backend.CPU) {
      throw new IllegalArgumentException(
          "the sums are of arrays on the CPU, the group is on " + group.device());
    }
    this.group = group;
    this.shape = shape;
    this.dataType = dataType;
    // The types have the same names in both libraries.
    io.nvrar.DataType type = io.nvrar.DataType.valueOf(dataType.name());
    buffer = group.device().allocate(type, shape.size());
    bytes =
        new Pointer(buffer.address())
            .getByteBuffer(0, buffer.sizeBytes())
            .order(ByteOrder.nativeOrder());
  }

  /**
   * Replaces the elements of an array by their sums over all ranks. All ranks call it at the same
   * point of their work.
   *
   * @throws IllegalArgumentException if the array has another shape or type, or is not on the CPU;
   *     the group has then made no call
   */
  void of(NDArray array) {
    if (!array.getShape().equals(shape) || array.getDataType() != dataType) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the sum is of %s%s, the array is %s%s",
              dataType,
              shape,
              array.getDataType(),
              array.getShape()));
    }
    if (array.getDevice().isGpu()) {
      throw new IllegalArgumentException(
          "the array is on " + array.getDevice() + ", not on the CPU");
    }
    // The array's own memory, or a copy in the order of its elements if it is a transposed view.
    bytes.clear().put(array.toByteBuffer(true));
    group.allReduce(buffer);
    // Into the array's elements, wherever they are. set(Buffer) would make the buffer the array's
    // memory, which the next sum overwrites.
    try (NDArray sums = array.getManager().create(bytes.clear(), shape, dataType)) {
      array.set(new NDIndex("..."), sums);
    }
  }

  @Override
  public void close() {
    buffer.close();
  }
}
