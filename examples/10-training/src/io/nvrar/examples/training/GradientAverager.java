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
 * Replaces gradients by their averages over the ranks of a group on CPUs. All ranks get the same
 * bits, so parameters that were equal stay equal.
 *
 * <p>Call {@link #average} after the backward pass and before the optimizer's step. DJL has no
 * hooks that tell when a gradient is ready, so nothing overlaps with the backward pass. The
 * gradients are copied into buckets, and each bucket is one all-reduce: hundreds of small gradients
 * cost as much as a few large ones. One thread at a time uses it.
 */
public final class GradientAverager implements AutoCloseable {
  private record Bucket(DeviceBuffer buffer, List<Place> places) {}

  /**
   * Where a gradient is in its bucket.
   *
   * @param memory the group's, valid until the bucket is closed
   */
  private record Place(NDArray weight, ByteBuffer memory) {}

  private final CollectiveGroup group;
  private final List<Bucket> buckets = new ArrayList<>();

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
    List<Place> places = new ArrayList<>();
    long address = buffer.address();
    for (NDArray weight : weights) {
      long bytes = weight.size() * Float.BYTES;
      ByteBuffer memory = new Pointer(address).getByteBuffer(0, bytes);
      places.add(new Place(weight, memory.order(ByteOrder.nativeOrder())));
      address += bytes;
    }
    return new Bucket(buffer, places);
  }

  /** Averages all gradients, in place. All ranks call it at the same point of their work. */
  public void average() {
    for (Bucket bucket : buckets) {
      for (Place place : bucket.places) {
        try (NDArray gradient = place.weight.getGradient()) {
          place.memory.clear().put(gradient.toByteBuffer(true));
        }
      }
      group.allReduce(bucket.buffer, ReduceOp.AVG);
      for (Place place : bucket.places) {
        NDManager manager = place.weight.getManager();
        try (NDArray gradient = place.weight.getGradient();
            NDArray average =
                manager.create(place.memory.clear(), gradient.getShape(), DataType.FLOAT32)) {
          // In place. NDArray.copyTo and set(Buffer) would give the gradient memory of Java's,
          // which
          // nothing holds.
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
  }
}
