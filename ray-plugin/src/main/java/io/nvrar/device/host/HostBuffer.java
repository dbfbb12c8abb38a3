package io.nvrar.device.host;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.HalfPrecision;
import java.nio.ByteBuffer;
import java.nio.ShortBuffer;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Elements in host memory: a whole allocation, or a slice that shares one. */
final class HostBuffer implements DeviceBuffer {
  private final HostDevice device;
  private final DataType dataType;
  private final HostAllocation allocation;

  /** The first element, counted from the allocation's. */
  private final long first;

  private final long count;

  /**
   * The buffer that this is a slice of; reachable, so that it is no leak while its slices are used.
   */
  private final @Nullable HostBuffer parent;

  private volatile boolean closed;

  private HostBuffer(
      HostDevice device,
      DataType dataType,
      HostAllocation allocation,
      long first,
      long count,
      @Nullable HostBuffer parent) {
    this.device = device;
    this.dataType = dataType;
    this.allocation = allocation;
    this.first = first;
    this.count = count;
    this.parent = parent;
  }

  static HostBuffer allocate(HostDevice device, DataType dataType, long count) {
    if (count < 0 || count > Long.MAX_VALUE / dataType.sizeBytes()) {
      throw new IllegalArgumentException(
          "a buffer of " + count + " elements cannot be allocated; a count is 0 or more");
    }
    String name = name(dataType, count);
    HostAllocation allocation = HostAllocation.of(count * dataType.sizeBytes(), name);
    HostBuffer buffer = new HostBuffer(device, dataType, allocation, 0, count, null);
    LeakReport.watch(buffer, name, allocation);
    return buffer;
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public DataType dataType() {
    return dataType;
  }

  @Override
  public long count() {
    return count;
  }

  @Override
  public long address() {
    requireOpen();
    return allocation.address() + first * dataType.sizeBytes();
  }

  @Override
  public DeviceBuffer slice(long offset, long sliceCount) {
    requireOpen();
    requireRange("a slice", offset, sliceCount);
    return new HostBuffer(device, dataType, allocation, first + offset, sliceCount, this);
  }

  @Override
  public void copyFrom(float[] source, int sourceOffset, long offset, int n) {
    requireElements("copyFrom", float.class);
    requireRange("the copy", offset, n);
    requireArrayRange(source.length, sourceOffset, n);
    copy(
        dataType.sizeBytes(),
        first + offset,
        n,
        (chunk, index, done, part) -> {
          int from = sourceOffset + done;
          switch (dataType) {
            case FLOAT32 -> allocation.floats(chunk).put(index, source, from, part);
            case FLOAT16 -> {
              ShortBuffer target = allocation.shorts(chunk);
              for (int i = 0; i < part; i++) {
                target.put(index + i, HalfPrecision.floatToFloat16(source[from + i]));
              }
            }
            case BFLOAT16 -> {
              ShortBuffer target = allocation.shorts(chunk);
              for (int i = 0; i < part; i++) {
                target.put(index + i, HalfPrecision.floatToBfloat16(source[from + i]));
              }
            }
            default -> throw notFloats();
          }
        });
  }

  @Override
  public void copyTo(long offset, float[] target, int targetOffset, int n) {
    requireElements("copyTo", float.class);
    requireRange("the copy", offset, n);
    requireArrayRange(target.length, targetOffset, n);
    copy(
        dataType.sizeBytes(),
        first + offset,
        n,
        (chunk, index, done, part) -> {
          int to = targetOffset + done;
          switch (dataType) {
            case FLOAT32 -> allocation.floats(chunk).get(index, target, to, part);
            case FLOAT16 -> {
              ShortBuffer source = allocation.shorts(chunk);
              for (int i = 0; i < part; i++) {
                target[to + i] = HalfPrecision.float16ToFloat(source.get(index + i));
              }
            }
            case BFLOAT16 -> {
              ShortBuffer source = allocation.shorts(chunk);
              for (int i = 0; i < part; i++) {
                target[to + i] = HalfPrecision.bfloat16ToFloat(source.get(index + i));
              }
            }
            default -> throw notFloats();
          }
        });
  }

  @Override
  public void copyFrom(double[] source) {
    copyFirst(
        "copyFrom",
        double.class,
        source.length,
        (chunk, index, done, part) -> allocation.doubles(chunk).put(index, source, done, part));
  }

  @Override
  public void copyTo(double[] target) {
    copyFirst(
        "copyTo",
        double.class,
        target.length,
        (chunk, index, done, part) -> allocation.doubles(chunk).get(index, target, done, part));
  }

  @Override
  public void copyFrom(byte[] source) {
    copyFirst(
        "copyFrom",
        byte.class,
        source.length,
        (chunk, index, done, part) -> allocation.bytes(chunk).put(index, source, done, part));
  }

  @Override
  public void copyTo(byte[] target) {
    copyFirst(
        "copyTo",
        byte.class,
        target.length,
        (chunk, index, done, part) -> allocation.bytes(chunk).get(index, target, done, part));
  }

  @Override
  public void copyFrom(int[] source) {
    copyFirst(
        "copyFrom",
        int.class,
        source.length,
        (chunk, index, done, part) -> allocation.ints(chunk).put(index, source, done, part));
  }

  @Override
  public void copyTo(int[] target) {
    copyFirst(
        "copyTo",
        int.class,
        target.length,
        (chunk, index, done, part) -> allocation.ints(chunk).get(index, target, done, part));
  }

  @Override
  public void copyFrom(long[] source) {
    copyFirst(
        "copyFrom",
        long.class,
        source.length,
        (chunk, index, done, part) -> allocation.longs(chunk).put(index, source, done, part));
  }

  @Override
  public void copyTo(long[] target) {
    copyFirst(
        "copyTo",
        long.class,
        target.length,
        (chunk, index, done, part) -> allocation.longs(chunk).get(index, target, done, part));
  }

  @Override
  public void copyFrom(ByteBuffer source) {
    int n = source.remaining();
    requireBytes(n);
    int from = source.position();
    copy(
        1,
        first * dataType.sizeBytes(),
        n,
        (chunk, index, done, part) ->
            allocation.bytes(chunk).put(index, source, from + done, part));
    source.position(source.limit());
  }

  @Override
  public void copyTo(ByteBuffer target) {
    int n = target.remaining();
    requireBytes(n);
    int to = target.position();
    copy(
        1,
        first * dataType.sizeBytes(),
        n,
        (chunk, index, done, part) -> target.put(to + done, allocation.bytes(chunk), index, part));
    target.position(target.limit());
  }

  @Override
  public void close() {
    closed = true;
    if (parent == null) {
      allocation.close();
    }
  }

  @Override
  public String toString() {
    return name(dataType, count) + " on the host" + (isClosed() ? ", closed" : "");
  }

  private interface Part {
    /**
     * Copies within one chunk.
     *
     * @param chunk which one
     * @param index its first unit to copy
     * @param done units copied from earlier chunks
     * @param part how many to copy
     */
    void copy(int chunk, int index, int done, int part);
  }

  /** Copies this buffer's first elements from or to an array of their Java type. */
  private void copyFirst(String method, Class<?> element, int n, Part part) {
    requireElements(method, element);
    requireRange("the copy", 0, n);
    copy(dataType.sizeBytes(), first, n, part);
  }

  /** Splits a range of units of a size into its parts by chunk, and holds the memory meanwhile. */
  private void copy(int unitBytes, long start, int n, Part part) {
    retain();
    try {
      int log2 = HostAllocation.CHUNK_BYTES_LOG2 - Integer.numberOfTrailingZeros(unitBytes);
      int unitsPerChunk = 1 << log2;
      for (int done = 0; done < n; ) {
        long unit = start + done;
        int index = (int) (unit & (unitsPerChunk - 1));
        int length = Math.min(n - done, unitsPerChunk - index);
        part.copy((int) (unit >>> log2), index, done, length);
        done += length;
      }
    } finally {
      release();
    }
  }

  /** Keeps the memory until {@link #release}, also if the buffer is closed meanwhile. */
  void retain() {
    requireOpen();
    if (!allocation.retain()) {
      throw closedException();
    }
  }

  void release() {
    allocation.release();
  }

  private boolean isClosed() {
    for (HostBuffer buffer = this; buffer != null; buffer = buffer.parent) {
      if (buffer.closed) {
        return true;
      }
    }
    return false;
  }

  private void requireOpen() {
    if (isClosed()) {
      throw closedException();
    }
  }

  private IllegalStateException closedException() {
    return new IllegalStateException(
        closed
            ? "the buffer " + name(dataType, count) + " is closed"
            : "the buffer that the slice " + name(dataType, count) + " was taken from is closed");
  }

  private void requireRange(String what, long offset, long n) {
    if (offset < 0 || n < 0 || offset > count - n) {
      throw new IllegalArgumentException(
          what
              + " of "
              + n
              + " elements from element "
              + offset
              + " does not fit in the buffer "
              + name(dataType, count));
    }
  }

  private static void requireArrayRange(int length, int offset, int n) {
    if (offset < 0 || offset > length - n) {
      throw new IllegalArgumentException(
          "the copy of "
              + n
              + " elements from index "
              + offset
              + " does not fit in an array of "
              + length);
    }
  }

  private void requireBytes(int n) {
    requireOpen();
    if (n > sizeBytes()) {
      throw new IllegalArgumentException(
          "the copy of "
              + n
              + " bytes does not fit in the buffer "
              + name(dataType, count)
              + " of "
              + sizeBytes()
              + " bytes");
    }
  }

  private void requireElements(String method, Class<?> element) {
    requireOpen();
    Class<?> own = javaElement(dataType);
    if (element != own) {
      throw new IllegalArgumentException(
          "%s(%s[]) was called on the buffer %s; copy a %s[]"
              .formatted(method, element, name(dataType, count), own));
    }
  }

  /** The Java type whose arrays hold such elements. */
  private static Class<?> javaElement(DataType type) {
    return switch (type) {
      case INT8, UINT8 -> byte.class;
      case INT32 -> int.class;
      case INT64 -> long.class;
      case FLOAT16, FLOAT32, BFLOAT16 -> float.class;
      case FLOAT64 -> double.class;
    };
  }

  private AssertionError notFloats() {
    return new AssertionError("requireElements lets no " + dataType + " pass");
  }

  private static String name(DataType dataType, long count) {
    return dataType.name().toLowerCase(Locale.ROOT) + "[" + count + "]";
  }
}
