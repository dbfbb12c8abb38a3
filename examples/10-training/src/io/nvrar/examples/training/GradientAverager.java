package io.nvrar.examples.training;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.DataType;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Averages gradients over the ranks of a group on CPUs. All ranks get the same bits, so parameters
 * that were equal stay equal.
 *
 * <p>Call {@link #average} after the backward pass and before the optimizer's step. Gradients are
 * copied into buckets. Each bucket is one all-reduce, so hundreds of small gradients need only a
 * few calls. The all-reduces do not overlap with the backward pass, because DJL has no hooks that
 * tell when a gradient is ready. Not thread-safe.
 */
public final class GradientAverager implements AutoCloseable {
  private record Bucket(DeviceBuffer buffer, List<Slice> slices) {}

  /**
   * Where a gradient is in its bucket.
   *
   * @param memory memory of the bucket's buffer; invalid after close
   */
  private record Slice(NDArray weight, ByteBuffer memory) {}

  private final CollectiveGroup group;
  private final List<Bucket> buckets = new ArrayList<>();
  private boolean closed;

  /**
   * Allocates the buckets.
   *
   * @param weights float32 arrays of PyTorch's engine on the CPU, each with a gradient after every
   *     backward pass; the same shapes in the same order on all ranks
   * @param bucketBytes how many bytes of gradients are summed at once; a larger gradient has a
   *     bucket of its own
   */
  public GradientAverager(CollectiveGroup group, List<NDArray> weights, long bucketBytes) {
    if (group.device().backend() != Backend.CPU) {
      throw new IllegalArgumentException(
          "the gradients are on the CPU, the group is on " + group.device());
    }
    for (NDArray weight : weights) {
      if (weight.getDataType() != DataType.FLOAT32 || weight.getDevice().isGpu()) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "the averages are of float32 on the CPU, '%s' is %s on %s",
                weight.getName(),
                weight.getDataType(),
                weight.getDevice()));
      }
    }
    this.group = group;
    try {
      allocate(weights, bucketBytes);
    } catch (RuntimeException | Error e) {
      try (this) {
        throw e;
      }
    }
  }

  private void allocate(List<NDArray> weights, long bucketBytes) {
    List<NDArray> together = new ArrayList<>();
    long bytes = 0;
    for (NDArray weight : weights) {
      long more = weight.size() * Float.BYTES;
      if (!together.isEmpty() && bytes + more > bucketBytes) {
        buckets.add(bucket(group, together));
        together.clear();
        bytes = 0;
      }
      together.add(weight);
      bytes += more;
    }
    if (!together.isEmpty()) {
      buckets.add(bucket(group, together));
    }
  }

  private static Bucket bucket(CollectiveGroup group, List<NDArray> weights) {
    long count = weights.stream().mapToLong(NDArray::size).sum();
    DeviceBuffer buffer = group.device().allocate(io.nvrar.DataType.FLOAT32, count);
    List<Slice> slices = new ArrayList<>();
    long address = buffer.address();
    for (NDArray weight : weights) {
      long bytes = weight.size() * Float.BYTES;
      ByteBuffer memory = new Pointer(address).getByteBuffer(0, bytes);
      slices.add(new Slice(weight, memory.order(ByteOrder.nativeOrder())));
      address += bytes;
    }
    return new Bucket(buffer, slices);
  }

  /**
   * Averages all gradients, in place. All ranks call it at the same point of their work. Each
   * weight must have had a backward pass on this rank: otherwise DJL drops its average without
   * notice.
   *
   * @throws IllegalStateException if the averager is closed
   */
  public void average() {
    if (closed) {
      throw new IllegalStateException("the averager is closed");
    }
    for (Bucket bucket : buckets) {
      for (Slice slice : bucket.slices) {
        try (NDArray gradient = slice.weight.getGradient()) {
          slice.memory.clear().put(gradient.toByteBuffer(true));
        }
      }
      group.allReduce(bucket.buffer, ReduceOp.AVG);
      for (Slice slice : bucket.slices) {
        NDManager manager = slice.weight.getManager();
        try (NDArray gradient = slice.weight.getGradient();
            NDArray average =
                manager.create(slice.memory.clear(), gradient.getShape(), DataType.FLOAT32)) {
          // In place: copyTo and set(Buffer) would swap in Java memory that may be freed early.
          gradient.set(new NDIndex("..."), average);
        }
      }
    }
  }

  /** Frees the buckets. */
  @Override
  public void close() {
    buckets.forEach(bucket -> bucket.buffer.close());
    buckets.clear();
    closed = true;
  }
}
