package io.nvrar.internal.device.memory;

import static java.util.Objects.requireNonNull;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.nio.ByteBuffer;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The base class of the buffers of all devices: a whole allocation, or a slice that shares one. It
 * implements conversions and checks; a subclass copies pieces between its device's memory and
 * memory that Java can access.
 */
public abstract class ElementBuffer implements DeviceBuffer {
  private final Elements elements;
  private final Lease memory;

  /** The offset of the first element in the allocation. */
  private final long first;

  /**
   * The buffer that this is a slice of. The reference keeps the parent reachable, so that it is not
   * reported as a leak while its slices are used.
   */
  private final @Nullable ElementBuffer parent;

  private volatile boolean closed;

  /** A whole allocation; {@code memory} frees it. */
  protected ElementBuffer(DataType dataType, long count, Lease memory) {
    elements = new Elements(dataType, count);
    this.memory = memory;
    first = 0;
    parent = null;
  }

  /** A slice of {@code parent}, which must be open. */
  protected ElementBuffer(ElementBuffer parent, long offset, long count) {
    parent.requireOpen();
    parent.elements.requireRange("a slice", offset, count);
    elements = new Elements(parent.dataType(), count);
    memory = parent.memory;
    first = parent.first + offset;
    this.parent = parent;
  }

  /**
   * Throws an {@link IllegalArgumentException} unless such a buffer can exist.
   *
   * @return its name, such as {@code float32[1024]}
   */
  public static String requireSize(DataType dataType, long count) {
    return new Elements(dataType, count).toString();
  }

  /** Throws unless every element is at an address that its type can be read from. */
  public static void requireAligned(String name, DataType dataType, long address) {
    if (address % dataType.sizeBytes() != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the buffer %s at 0x%x is not aligned to its elements of %d bytes",
              name,
              address,
              dataType.sizeBytes()));
    }
  }

  /**
   * Throws an {@link IllegalArgumentException} unless {@code source} can be copied to the front of
   * {@code target}.
   */
  public static void requireFits(DeviceBuffer source, DeviceBuffer target) {
    Elements from = new Elements(source.dataType(), source.count());
    Elements to = new Elements(target.dataType(), target.count());
    if (source.dataType() != target.dataType() || source.count() > target.count()) {
      throw new IllegalArgumentException(
          "the buffer " + from + " cannot be copied to the buffer " + to);
    }
  }

  /** The message for a copy to or from Java on a stream that captures. */
  public static String notRecorded(String what) {
    return what
        + " was called on a stream that is capturing; what it records runs when the graph is launched, so record DeviceStream.copy with a buffer of allocatePinned instead";
  }

  /** The address of the allocation in the device's address space. */
  protected abstract long baseAddress();

  /**
   * Fills a range of the allocation; the caller keeps the memory alive meanwhile.
   *
   * @param on the stream of the copy; null for a blocking copy
   * @param unitBytes 1, 2, 4 or 8
   * @param start the offset of the first unit in the allocation
   * @param n the number of units
   * @param part fills a piece that Java can access; called in the order of the units
   */
  protected abstract void write(
      @Nullable DeviceStream on, int unitBytes, long start, int n, Part part);

  /** The opposite of {@link #write}: {@code part} reads a piece. */
  protected abstract void read(
      @Nullable DeviceStream on, int unitBytes, long start, int n, Part part);

  /** One piece of a copy. */
  @FunctionalInterface
  public interface Part {
    /**
     * Copies a piece.
     *
     * @param view the memory of the piece
     * @param index its first unit in {@code view}
     * @param done units copied before
     * @param count how many to copy
     */
    void copy(HostView view, int index, int done, int count);
  }

  @Override
  public final DataType dataType() {
    return elements.dataType();
  }

  @Override
  public final long count() {
    return elements.count();
  }

  @Override
  public final long address() {
    requireOpen();
    return baseAddress() + first * dataType().sizeBytes();
  }

  @Override
  public final void copyFrom(float[] source, int sourceOffset, long offset, int n) {
    floatsIn(source, sourceOffset, offset, n, null);
  }

  @Override
  public final void copyFrom(
      float[] source, int sourceOffset, long offset, int n, DeviceStream stream) {
    floatsIn(source, sourceOffset, offset, n, requireNonNull(stream));
  }

  private void floatsIn(
      float[] source, int sourceOffset, long offset, int n, @Nullable DeviceStream on) {
    requireCopy("copyFrom", float.class, offset, n);
    Elements.requireArrayRange(source.length, sourceOffset, n);
    Part part = Parts.of(dataType(), source, sourceOffset);
    copy(() -> write(on, dataType().sizeBytes(), first + offset, n, part));
  }

  @Override
  public final void copyTo(long offset, float[] target, int targetOffset, int n) {
    floatsOut(offset, target, targetOffset, n, null);
  }

  @Override
  public final void copyTo(
      long offset, float[] target, int targetOffset, int n, DeviceStream stream) {
    floatsOut(offset, target, targetOffset, n, requireNonNull(stream));
  }

  private void floatsOut(
      long offset, float[] target, int targetOffset, int n, @Nullable DeviceStream on) {
    requireCopy("copyTo", float.class, offset, n);
    Elements.requireArrayRange(target.length, targetOffset, n);
    Part part = Parts.into(dataType(), target, targetOffset);
    copy(() -> read(on, dataType().sizeBytes(), first + offset, n, part));
  }

  @Override
  public final void copyFrom(double[] source) {
    copyIn(double.class, source.length, null, Parts.of(source));
  }

  @Override
  public final void copyFrom(double[] source, DeviceStream stream) {
    copyIn(double.class, source.length, requireNonNull(stream), Parts.of(source));
  }

  @Override
  public final void copyTo(double[] target) {
    copyOut(double.class, target.length, null, Parts.into(target));
  }

  @Override
  public final void copyTo(double[] target, DeviceStream stream) {
    copyOut(double.class, target.length, requireNonNull(stream), Parts.into(target));
  }

  @Override
  public final void copyFrom(byte[] source) {
    copyIn(byte.class, source.length, null, Parts.of(source));
  }

  @Override
  public final void copyFrom(byte[] source, DeviceStream stream) {
    copyIn(byte.class, source.length, requireNonNull(stream), Parts.of(source));
  }

  @Override
  public final void copyTo(byte[] target) {
    copyOut(byte.class, target.length, null, Parts.into(target));
  }

  @Override
  public final void copyTo(byte[] target, DeviceStream stream) {
    copyOut(byte.class, target.length, requireNonNull(stream), Parts.into(target));
  }

  @Override
  public final void copyFrom(int[] source) {
    copyIn(int.class, source.length, null, Parts.of(source));
  }

  @Override
  public final void copyFrom(int[] source, DeviceStream stream) {
    copyIn(int.class, source.length, requireNonNull(stream), Parts.of(source));
  }

  @Override
  public final void copyTo(int[] target) {
    copyOut(int.class, target.length, null, Parts.into(target));
  }

  @Override
  public final void copyTo(int[] target, DeviceStream stream) {
    copyOut(int.class, target.length, requireNonNull(stream), Parts.into(target));
  }

  @Override
  public final void copyFrom(long[] source) {
    copyIn(long.class, source.length, null, Parts.of(source));
  }

  @Override
  public final void copyFrom(long[] source, DeviceStream stream) {
    copyIn(long.class, source.length, requireNonNull(stream), Parts.of(source));
  }

  @Override
  public final void copyTo(long[] target) {
    copyOut(long.class, target.length, null, Parts.into(target));
  }

  @Override
  public final void copyTo(long[] target, DeviceStream stream) {
    copyOut(long.class, target.length, requireNonNull(stream), Parts.into(target));
  }

  @Override
  public final void copyFrom(ByteBuffer source) {
    bytesIn(source, null);
  }

  @Override
  public final void copyFrom(ByteBuffer source, DeviceStream stream) {
    bytesIn(source, requireNonNull(stream));
  }

  private void bytesIn(ByteBuffer source, @Nullable DeviceStream on) {
    int n = source.remaining();
    requireOpen();
    elements.requireBytes(n);
    Part part = Parts.of(source);
    copy(() -> write(on, 1, first * dataType().sizeBytes(), n, part));
    source.position(source.limit());
  }

  @Override
  public final void copyTo(ByteBuffer target) {
    bytesOut(target, null);
  }

  @Override
  public final void copyTo(ByteBuffer target, DeviceStream stream) {
    bytesOut(target, requireNonNull(stream));
  }

  private void bytesOut(ByteBuffer target, @Nullable DeviceStream on) {
    int n = target.remaining();
    requireOpen();
    elements.requireBytes(n);
    Part part = Parts.into(target);
    copy(() -> read(on, 1, first * dataType().sizeBytes(), n, part));
    target.position(target.limit());
  }

  @Override
  public final void close() {
    closed = true;
    if (parent == null) {
      memory.close();
    }
  }

  @Override
  public final String toString() {
    return elements + " on the " + place() + (isClosed() ? ", closed" : "");
  }

  /** The name of the device whose memory this is, such as {@code host}. */
  protected abstract String place();

  /**
   * Keeps the memory until {@link #release}, even if the buffer is closed meanwhile.
   *
   * @throws IllegalStateException if it is closed
   */
  public final void retain() {
    requireOpen();
    if (!memory.retain()) {
      throw closedException();
    }
  }

  /** Undoes one {@link #retain}, as {@link Lease#release} does. */
  public final void release() {
    memory.release();
  }

  private void requireCopy(String method, Class<?> element, long offset, int n) {
    requireOpen();
    elements.requireJavaType(method, element);
    elements.requireRange("the copy", offset, n);
  }

  private void copyIn(Class<?> element, int n, @Nullable DeviceStream on, Part part) {
    requireCopy("copyFrom", element, 0, n);
    copy(() -> write(on, dataType().sizeBytes(), first, n, part));
  }

  private void copyOut(Class<?> element, int n, @Nullable DeviceStream on, Part part) {
    requireCopy("copyTo", element, 0, n);
    copy(() -> read(on, dataType().sizeBytes(), first, n, part));
  }

  private void copy(Runnable work) {
    retain();
    try {
      work.run();
    } finally {
      release();
    }
  }

  private boolean isClosed() {
    for (ElementBuffer buffer = this; buffer != null; buffer = buffer.parent) {
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
            ? "the buffer " + elements + " is closed"
            : "the buffer that the slice " + elements + " was taken from is closed");
  }
}
