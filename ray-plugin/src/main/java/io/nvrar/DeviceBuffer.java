package io.nvrar;

import java.nio.ByteBuffer;

/**
 * An array of elements of one type in a device's memory. Concurrent access to overlapping elements
 * is not thread-safe.
 *
 * <p>A copy to or from Java with a stream argument runs in the order of that stream and does not
 * wait for other streams. A copy without a stream is simpler to use, but blocks: it first waits for
 * everything submitted to any open stream of the device, except streams that capture, and throws
 * failures of that work. It can therefore deadlock between calls that depend on each other: if a
 * rank enqueues a {@code recv}, then makes such a copy, and only then enqueues the {@code send}
 * that its peer waits for, the copy waits until the group's timeout. {@link DeviceStream#copy}
 * copies between buffers and never waits.
 *
 * <p>On a GPU, copies on streams pass through pinned staging memory, of which a device has some MiB
 * from its first stream on. If that is full because earlier copies have not been executed yet, a
 * copy allocates more. The driver may block such an allocation until the work running on the GPU
 * has ended, including a collective that waits for what this rank does next. {@link
 * DeviceStream#copy} from or to an existing buffer of {@link Device#allocatePinned} never
 * allocates.
 *
 * <p>The arrays must have the Java type that holds the buffer's elements; a {@link ByteBuffer}
 * holds elements of any type in the native byte order. Another type, a range that does not fit, or
 * a stream of another device throws an {@link IllegalArgumentException}, and nothing is copied. The
 * methods of a closed buffer throw an {@link IllegalStateException}. A buffer that becomes garbage
 * without {@link #close} is logged as a leak and its memory is not freed.
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
   * A view of a part of this buffer, sharing its memory. The memory is freed when the buffer that
   * it was sliced from is closed; closing a slice frees nothing.
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

  /** {@link #copyFrom(float[])} in the order of a stream, as the next method describes. */
  default void copyFrom(float[] source, DeviceStream stream) {
    copyFrom(source, 0, 0, source.length, stream);
  }

  /**
   * Copies floats into this buffer in stream order: after the work submitted to the stream before,
   * and before the work submitted later. Returns when {@code source} may be changed; on a GPU that
   * is before the copy has been executed, and this buffer must stay open until it has. The method
   * blocks (back-pressure) only while several MiB of such copies on this stream are still in
   * flight. A copy larger than that waits for its own first parts, as {@link
   * DeviceStream#synchronize} would.
   *
   * @param source the values
   * @param sourceOffset the first value to copy
   * @param offset the first element to write
   * @param count the number of elements
   * @param stream a stream of this buffer's device
   * @throws IllegalStateException if the stream is closed, or is capturing: a graph cannot record
   *     the values of an array. Record a {@link DeviceStream#copy} from pinned memory instead
   */
  void copyFrom(float[] source, int sourceOffset, long offset, int count, DeviceStream stream);

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

  /** {@link #copyTo(float[])} in the order of a stream, as the next method describes. */
  default void copyTo(float[] target, DeviceStream stream) {
    copyTo(0, target, 0, target.length, stream);
  }

  /**
   * Copies elements out as floats in stream order: after the work submitted to the stream before.
   * Returns when {@code target} holds the values. It waits as {@link DeviceStream#synchronize} does
   * and throws the same failures; if it throws, the content of {@code target} is undefined.
   *
   * @param offset the first element to read
   * @param target where the values go
   * @param targetOffset the first value to write
   * @param count the number of elements
   * @param stream a stream of this buffer's device
   * @throws CollectiveException if a group whose calls were submitted to the stream has failed
   * @throws IllegalStateException if the stream is closed, or is capturing
   */
  void copyTo(long offset, float[] target, int targetOffset, int count, DeviceStream stream);

  /** Copies all of {@code source} to the front of this {@link DataType#FLOAT64} buffer. */
  void copyFrom(double[] source);

  /**
   * {@link #copyFrom(double[])} in the order of a stream; see {@link #copyFrom(float[], int, long,
   * int, DeviceStream)}.
   */
  void copyFrom(double[] source, DeviceStream stream);

  /**
   * Copies the first {@code target.length} elements of this {@link DataType#FLOAT64} buffer out.
   */
  void copyTo(double[] target);

  /**
   * {@link #copyTo(double[])} in the order of a stream; see {@link #copyTo(long, float[], int, int,
   * DeviceStream)}.
   */
  void copyTo(double[] target, DeviceStream stream);

  /**
   * Copies all of {@code source} to the front of this {@link DataType#INT8} or {@link
   * DataType#UINT8} buffer.
   */
  void copyFrom(byte[] source);

  /**
   * {@link #copyFrom(byte[])} in the order of a stream; see {@link #copyFrom(float[], int, long,
   * int, DeviceStream)}.
   */
  void copyFrom(byte[] source, DeviceStream stream);

  /**
   * Copies the first {@code target.length} elements of this {@link DataType#INT8} or {@link
   * DataType#UINT8} buffer out; {@link Byte#toUnsignedInt} gives the value of an unsigned element.
   */
  void copyTo(byte[] target);

  /**
   * {@link #copyTo(byte[])} in the order of a stream; see {@link #copyTo(long, float[], int, int,
   * DeviceStream)}.
   */
  void copyTo(byte[] target, DeviceStream stream);

  /** Copies all of {@code source} to the front of this {@link DataType#INT32} buffer. */
  void copyFrom(int[] source);

  /**
   * {@link #copyFrom(int[])} in the order of a stream; see {@link #copyFrom(float[], int, long,
   * int, DeviceStream)}.
   */
  void copyFrom(int[] source, DeviceStream stream);

  /** Copies the first {@code target.length} elements of this {@link DataType#INT32} buffer out. */
  void copyTo(int[] target);

  /**
   * {@link #copyTo(int[])} in the order of a stream; see {@link #copyTo(long, float[], int, int,
   * DeviceStream)}.
   */
  void copyTo(int[] target, DeviceStream stream);

  /** Copies all of {@code source} to the front of this {@link DataType#INT64} buffer. */
  void copyFrom(long[] source);

  /**
   * {@link #copyFrom(long[])} in the order of a stream; see {@link #copyFrom(float[], int, long,
   * int, DeviceStream)}.
   */
  void copyFrom(long[] source, DeviceStream stream);

  /** Copies the first {@code target.length} elements of this {@link DataType#INT64} buffer out. */
  void copyTo(long[] target);

  /**
   * {@link #copyTo(long[])} in the order of a stream; see {@link #copyTo(long, float[], int, int,
   * DeviceStream)}.
   */
  void copyTo(long[] target, DeviceStream stream);

  /**
   * Copies the remaining bytes of {@code source} to the front of this buffer; the source's position
   * moves to its limit.
   */
  void copyFrom(ByteBuffer source);

  /**
   * {@link #copyFrom(ByteBuffer)} in the order of a stream; see {@link #copyFrom(float[], int,
   * long, int, DeviceStream)}.
   */
  void copyFrom(ByteBuffer source, DeviceStream stream);

  /** Copies bytes from the front of this buffer until {@code target} has none remaining. */
  void copyTo(ByteBuffer target);

  /**
   * {@link #copyTo(ByteBuffer)} in the order of a stream; see {@link #copyTo(long, float[], int,
   * int, DeviceStream)}.
   */
  void copyTo(ByteBuffer target, DeviceStream stream);

  /** Frees the memory. Idempotent. No work in flight on a stream may still use the buffer. */
  @Override
  void close();
}
