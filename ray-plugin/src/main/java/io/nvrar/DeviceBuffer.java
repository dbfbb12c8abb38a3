package io.nvrar;

import java.nio.ByteBuffer;

/**
 * Elements of one type in a device's memory. Not safe for concurrent use of overlapping elements.
 *
 * <p>A copy to or from Java that is given a stream is made in the order of that stream, and waits
 * for the work of no other. One without a stream is simpler to use and blocks: it first waits for
 * everything that was submitted to any open stream of the device, except streams that capture, and
 * throws what has failed there. So it must not stand between calls that need each other: if a rank
 * enqueues a {@code recv}, then makes such a copy, and would only then enqueue the {@code send}
 * that its peer waits for, the copy waits until the group's timeout. {@link DeviceStream#copy}
 * copies between buffers, and waits for nothing.
 *
 * <p>On a GPU, copies on streams pass through pinned memory, of which a device has some MiB from
 * its first stream on. A copy that finds no room there, because other copies have not been executed
 * yet, has more allocated, and for that the driver may wait until what runs on the GPU has ended:
 * also a call of a group, which may wait for what this rank does next. {@link DeviceStream#copy}
 * from or to a buffer of {@link Device#allocatePinned} that was allocated before never has to.
 *
 * <p>Each copy takes arrays of the Java type that holds the buffer's elements, {@link ByteBuffer}s
 * take any in the native byte order; another type, a range that does not fit, or a stream of
 * another device is an {@link IllegalArgumentException} and copies nothing. A closed buffer throws
 * {@link IllegalStateException}. A buffer that is dropped without {@link #close} is reported as a
 * leak in the log and not freed.
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

  /** {@link #copyFrom(float[])} in the order of a stream, as the next method describes. */
  default void copyFrom(float[] source, DeviceStream stream) {
    copyFrom(source, 0, 0, source.length, stream);
  }

  /**
   * Copies floats into this buffer in the order of a stream: after what was submitted to it before,
   * and before what is submitted to it later. Returns when {@code source} may be changed, which is
   * before the copy has been executed on a GPU; this buffer must stay open until then. It waits
   * only while several MiB that were copied on this stream in this way have not been executed yet;
   * a larger copy thus waits for its own first parts, as long as {@link DeviceStream#synchronize}
   * would wait for them.
   *
   * @param source the values
   * @param sourceOffset the first value to copy
   * @param offset the first element to write
   * @param count the number of elements
   * @param stream a stream of this buffer's device
   * @throws IllegalStateException if the stream is closed, or captures: a graph cannot record the
   *     values of an array, and {@link DeviceStream#copy} records a copy from pinned memory
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
   * Copies elements out as floats in the order of a stream: what was submitted to it before has
   * been executed, and nothing else is waited for. Returns when {@code target} holds the values. It
   * waits as {@link DeviceStream#synchronize} does and throws the same failures; if it throws, what
   * {@code target} holds is undefined.
   *
   * @param offset the first element to read
   * @param target where the values go
   * @param targetOffset the first value to write
   * @param count the number of elements
   * @param stream a stream of this buffer's device
   * @throws CollectiveException if a group whose calls were submitted to the stream has failed
   * @throws IllegalStateException if the stream is closed, or captures
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
   * DataType#UINT8} buffer out; {@link Byte#toUnsignedInt} gives the value of the latter's.
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

  /** Frees the memory. Idempotent. Nothing submitted to a stream may still use it. */
  @Override
  void close();
}
