package io.nvrar.device.memory;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.HalfPrecision;
import java.nio.ByteBuffer;
import java.nio.ShortBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A buffer of any device: a whole allocation, or a slice that shares one. A device says how memory
 * that Java can see goes to and comes from its own, piece by piece; conversions and checks are
 * here.
 */
public abstract class ElementBuffer implements DeviceBuffer {
  private final Elements elements;
  private final Lease memory;

  /** The first element, counted from the allocation's. */
  private final long first;

  /**
   * The buffer that this is a slice of; reachable, so that it is no leak while its slices are used.
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

  /** A slice of {@code parent}, which is open. */
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

  /**
   * Throws an {@link IllegalArgumentException} unless a copy of one to the front of the other is
   * possible.
   */
  public static void requireFits(DeviceBuffer source, DeviceBuffer target) {
    Elements from = new Elements(source.dataType(), source.count());
    Elements to = new Elements(target.dataType(), target.count());
    if (source.dataType() != target.dataType() || source.count() > target.count()) {
      throw new IllegalArgumentException(
          "the buffer " + from + " cannot be copied to the buffer " + to);
    }
  }

  /** Where the allocation begins in the device's address space. */
  protected abstract long baseAddress();

  /**
   * Fills a range of the allocation, whose memory is kept meanwhile.
   *
   * @param unitBytes 1, 2, 4 or 8
   * @param start the first unit, counted from the allocation's
   * @param n the number of units
   * @param part fills a piece that Java can see; to be called in the order of the units
   */
  protected abstract void write(int unitBytes, long start, int n, Part part);

  /** The opposite of {@link #write}: {@code part} reads a piece. */
  protected abstract void read(int unitBytes, long start, int n, Part part);

  /** One piece of a copy. */
  @FunctionalInterface
  public interface Part {
    /**
     * Copies a piece.
     *
     * @param view the memory it lies in
     * @param index its first unit there
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
    requireCopy("copyFrom", float.class, offset, n);
    Elements.requireArrayRange(source.length, sourceOffset, n);
    copyIn(
        offset,
        n,
        (view, index, done, part) -> {
          int from = sourceOffset + done;
          switch (dataType()) {
            case FLOAT32 -> view.floats().put(index, source, from, part);
            case FLOAT16 -> {
              ShortBuffer target = view.shorts();
              for (int i = 0; i < part; i++) {
                target.put(index + i, HalfPrecision.floatToFloat16(source[from + i]));
              }
            }
            case BFLOAT16 -> {
              ShortBuffer target = view.shorts();
              for (int i = 0; i < part; i++) {
                target.put(index + i, HalfPrecision.floatToBfloat16(source[from + i]));
              }
            }
            default -> throw notFloats();
          }
        });
  }

  @Override
  public final void copyTo(long offset, float[] target, int targetOffset, int n) {
    requireCopy("copyTo", float.class, offset, n);
    Elements.requireArrayRange(target.length, targetOffset, n);
    copyOut(
        offset,
        n,
        (view, index, done, part) -> {
          int to = targetOffset + done;
          switch (dataType()) {
            case FLOAT32 -> view.floats().get(index, target, to, part);
            case FLOAT16 -> {
              ShortBuffer source = view.shorts();
              for (int i = 0; i < part; i++) {
                target[to + i] = HalfPrecision.float16ToFloat(source.get(index + i));
              }
            }
            case BFLOAT16 -> {
              ShortBuffer source = view.shorts();
              for (int i = 0; i < part; i++) {
                target[to + i] = HalfPrecision.bfloat16ToFloat(source.get(index + i));
              }
            }
            default -> throw notFloats();
          }
        });
  }

  @Override
  public final void copyFrom(double[] source) {
    requireCopy("copyFrom", double.class, 0, source.length);
    copyIn(0, source.length, (view, i, done, part) -> view.doubles().put(i, source, done, part));
  }

  @Override
  public final void copyTo(double[] target) {
    requireCopy("copyTo", double.class, 0, target.length);
    copyOut(0, target.length, (view, i, done, part) -> view.doubles().get(i, target, done, part));
  }

  @Override
  public final void copyFrom(byte[] source) {
    requireCopy("copyFrom", byte.class, 0, source.length);
    copyIn(0, source.length, (view, i, done, part) -> view.bytes().put(i, source, done, part));
  }

  @Override
  public final void copyTo(byte[] target) {
    requireCopy("copyTo", byte.class, 0, target.length);
    copyOut(0, target.length, (view, i, done, part) -> view.bytes().get(i, target, done, part));
  }

  @Override
  public final void copyFrom(int[] source) {
    requireCopy("copyFrom", int.class, 0, source.length);
    copyIn(0, source.length, (view, i, done, part) -> view.ints().put(i, source, done, part));
  }

  @Override
  public final void copyTo(int[] target) {
    requireCopy("copyTo", int.class, 0, target.length);
    copyOut(0, target.length, (view, i, done, part) -> view.ints().get(i, target, done, part));
  }

  @Override
  public final void copyFrom(long[] source) {
    requireCopy("copyFrom", long.class, 0, source.length);
    copyIn(0, source.length, (view, i, done, part) -> view.longs().put(i, source, done, part));
  }

  @Override
  public final void copyTo(long[] target) {
    requireCopy("copyTo", long.class, 0, target.length);
    copyOut(0, target.length, (view, i, done, part) -> view.longs().get(i, target, done, part));
  }

  @Override
  public final void copyFrom(ByteBuffer source) {
    int n = source.remaining();
    requireOpen();
    elements.requireBytes(n);
    int from = source.position();
    Part part = (view, i, done, length) -> view.bytes().put(i, source, from + done, length);
    copy(() -> write(1, first * dataType().sizeBytes(), n, part));
    source.position(source.limit());
  }

  @Override
  public final void copyTo(ByteBuffer target) {
    int n = target.remaining();
    requireOpen();
    elements.requireBytes(n);
    int to = target.position();
    Part part = (view, i, done, length) -> target.put(to + done, view.bytes(), i, length);
    copy(() -> read(1, first * dataType().sizeBytes(), n, part));
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

  /** Whose memory this is, such as {@code host}. */
  protected abstract String place();

  /**
   * Keeps the memory until {@link #release}, also if the buffer is closed meanwhile.
   *
   * @throws IllegalStateException if it is closed
   */
  public final void retain() {
    requireOpen();
    if (!memory.retain()) {
      throw closedException();
    }
  }

  /** Undoes one {@link #retain}. */
  public final void release() {
    memory.release();
  }

  private void requireCopy(String method, Class<?> element, long offset, int n) {
    requireOpen();
    elements.requireJavaType(method, element);
    elements.requireRange("the copy", offset, n);
  }

  private void copyIn(long offset, int n, Part part) {
    copy(() -> write(dataType().sizeBytes(), first + offset, n, part));
  }

  private void copyOut(long offset, int n, Part part) {
    copy(() -> read(dataType().sizeBytes(), first + offset, n, part));
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

  private AssertionError notFloats() {
    return new AssertionError("requireCopy lets no " + dataType() + " pass");
  }
}
