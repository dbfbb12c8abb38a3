package io.nvrar;

import java.nio.ByteBuffer;

/**
 * Elements of one type in a device's memory. Not safe for concurrent use of overlapping elements.
 *
 * <p>Copies to and from Java are blocking and meant for setting up, for results and for the CPU
 * backend. Each waits for what was submitted before to any stream of the device, but for what those
 * that capture record; {@link DeviceStream#copy} is the copy that waits for nothing. Each takes
 * arrays of the Java type that holds the buffer's elements, {@link ByteBuffer}s take any in the
 * native byte order; another type, or a range that does not fit, is an {@link
 * IllegalArgumentException} and copies nothing. A closed buffer throws {@link
 * IllegalStateException}. A buffer that is dropped without {@link #close} is reported as a leak in
 * the log and not freed.
 */
public interface DeviceBuffer extends AutoCloseable {

  /** The device whose memory this is. */
  Device device();

  /** The type of the elements. */
  DataType dataType();

  /** The number of elements. */
  long count();

  /** {@code count() * dataType().sizeBytes()}. */
  default long sizeBytes() {
    return count() * dataType().sizeBytes();
  }

  /** The address of the first element in the device's address space. */
  long address();

  /**
   * A part of this buffer that shares its memory. The memory is freed with the buffer it was sliced
   * from; closing a slice frees nothing.
   *
   * @param offset the first element
   * @param count the number of elements
   */
  DeviceBuffer slice(long offset, long count);

  /**
   * Copies all of {@code source} to the front of this buffer, converting to this buffer's type. For
   * {@link DataType#FLOAT16}, {@link DataType#FLOAT32} and {@link DataType#BFLOAT16}.
   */
  default void copyFrom(float[] source) {
    copyFrom(source, 0, 0, source.length);
  }

  /**
   * Copies floats into this buffer, rounding to nearest even where its type is narrower.
   *
   * @param source the values
   * @param sourceOffset the first value to copy
   * @param offset the first element to write
   * @param count the number of elements
   */
  void copyFrom(float[] source, int sourceOffset, long offset, int count);

  /**
   * Copies the first {@code target.length} elements out, widened to float. For {@link
   * DataType#FLOAT16}, {@link DataType#FLOAT32} and {@link DataType#BFLOAT16}.
   */
  default void copyTo(float[] target) {
    copyTo(0, target, 0, target.length);
  }

  /**
   * Copies elements out as floats.
   *
   * @param offset the first element to read
   * @param target where the values go
   * @param targetOffset the first value to write
   * @param count the number of elements
   */
  void copyTo(long offset, float[] target, int targetOffset, int count);

  /** Copies all of {@code source} to the front of this {@link DataType#FLOAT64} buffer. */
  void copyFrom(double[] source);

  /**
   * Copies the first {@code target.length} elements of this {@link DataType#FLOAT64} buffer out.
   */
  void copyTo(double[] target);

  /**
   * Copies all of {@code source} to the front of this {@link DataType#INT8} or {@link
   * DataType#UINT8} buffer.
   */
  void copyFrom(byte[] source);

  /**
   * Copies the first {@code target.length} elements of this {@link DataType#INT8} or {@link
   * DataType#UINT8} buffer out; {@link Byte#toUnsignedInt} gives the value of the latter's.
   */
  void copyTo(byte[] target);

  /** Copies all of {@code source} to the front of this {@link DataType#INT32} buffer. */
  void copyFrom(int[] source);

  /** Copies the first {@code target.length} elements of this {@link DataType#INT32} buffer out. */
  void copyTo(int[] target);

  /** Copies all of {@code source} to the front of this {@link DataType#INT64} buffer. */
  void copyFrom(long[] source);

  /** Copies the first {@code target.length} elements of this {@link DataType#INT64} buffer out. */
  void copyTo(long[] target);

  /**
   * Copies the remaining bytes of {@code source} to the front of this buffer; the source's position
   * moves to its limit.
   */
  void copyFrom(ByteBuffer source);

  /** Copies bytes from the front of this buffer until {@code target} has none remaining. */
  void copyTo(ByteBuffer target);

  /** Frees the memory. Idempotent. Nothing submitted to a stream may still use it. */
  @Override
  void close();
}
