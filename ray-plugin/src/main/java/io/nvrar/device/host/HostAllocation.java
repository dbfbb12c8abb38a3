package io.nvrar.device.host;

import io.nvrar.internal.NativeMemory;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory outside the Java heap, freed when it is closed and no copy runs on it any more, so that a
 * buffer closed at the wrong time is an exception and not the end of the process.
 *
 * <p>It is seen through views of at most 1 GiB each, because a Java buffer ends at 2 GiB. Chunks
 * and the address are aligned to 256 bytes, so no element crosses from one view to the next.
 */
final class HostAllocation {
  /** A power of two, and a multiple of every element's size. */
  static final int CHUNK_BYTES_LOG2 = 30;

  private static final long CHUNK_BYTES = 1L << CHUNK_BYTES_LOG2;
  private static final long ALIGNMENT = 256;

  /** Bit of {@link #uses} that says closed; the bits below count running copies. */
  private static final long CLOSED = 1L << 62;

  private final long start;
  private final long address;
  private final ByteBuffer[] bytes;
  private final ShortBuffer[] shorts;
  private final IntBuffer[] ints;
  private final LongBuffer[] longs;
  private final FloatBuffer[] floats;
  private final DoubleBuffer[] doubles;
  private final AtomicLong uses = new AtomicLong();

  private HostAllocation(long start, long sizeBytes) {
    this.start = start;
    address = (start + ALIGNMENT - 1) & -ALIGNMENT;
    int chunks = (int) ((sizeBytes + CHUNK_BYTES - 1) >>> CHUNK_BYTES_LOG2);
    bytes = new ByteBuffer[chunks];
    shorts = new ShortBuffer[chunks];
    ints = new IntBuffer[chunks];
    longs = new LongBuffer[chunks];
    floats = new FloatBuffer[chunks];
    doubles = new DoubleBuffer[chunks];
    for (int i = 0; i < chunks; i++) {
      long offset = (long) i << CHUNK_BYTES_LOG2;
      int length = (int) Math.min(CHUNK_BYTES, sizeBytes - offset);
      bytes[i] = NativeMemory.view(address + offset, length);
      shorts[i] = bytes[i].asShortBuffer();
      ints[i] = bytes[i].asIntBuffer();
      longs[i] = bytes[i].asLongBuffer();
      floats[i] = bytes[i].asFloatBuffer();
      doubles[i] = bytes[i].asDoubleBuffer();
    }
  }

  /**
   * Allocates.
   *
   * @param what for the message, such as {@code float32[1024]}
   */
  static HostAllocation of(long sizeBytes, String what) {
    // Room to align, and an address of its own for a buffer of no elements.
    long start =
        sizeBytes > Long.MAX_VALUE - ALIGNMENT ? 0 : NativeMemory.allocate(sizeBytes + ALIGNMENT);
    if (start == 0) {
      throw new OutOfMemoryError(
          "the machine has no room for a buffer of " + what + ", " + sizeBytes + " bytes");
    }
    return new HostAllocation(start, sizeBytes);
  }

  long address() {
    return address;
  }

  boolean isClosed() {
    return (uses.get() & CLOSED) != 0;
  }

  /** Keeps the memory until {@link #release}; false if it is closed. */
  boolean retain() {
    long now;
    do {
      now = uses.get();
      if ((now & CLOSED) != 0) {
        return false;
      }
    } while (!uses.compareAndSet(now, now + 1));
    return true;
  }

  void release() {
    if (uses.decrementAndGet() == CLOSED) {
      free();
    }
  }

  /** Frees the memory, now or when the last running copy has ended. Idempotent. */
  void close() {
    long before = uses.getAndUpdate(now -> now | CLOSED);
    if (before == 0) {
      free();
    }
  }

  ByteBuffer bytes(int chunk) {
    return bytes[chunk];
  }

  ShortBuffer shorts(int chunk) {
    return shorts[chunk];
  }

  IntBuffer ints(int chunk) {
    return ints[chunk];
  }

  LongBuffer longs(int chunk) {
    return longs[chunk];
  }

  FloatBuffer floats(int chunk) {
    return floats[chunk];
  }

  DoubleBuffer doubles(int chunk) {
    return doubles[chunk];
  }

  private void free() {
    NativeMemory.free(start);
  }
}
