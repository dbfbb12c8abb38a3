package io.nvrar.internal.device.memory;

import io.nvrar.internal.binding.NativeMemory;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;

/**
 * A view of a piece of host memory for Java, with an accessor for each element type in the native
 * byte order. It does not keep the memory alive.
 */
public final class HostView {
  private final ByteBuffer bytes;
  private final ShortBuffer shorts;
  private final IntBuffer ints;
  private final LongBuffer longs;
  private final FloatBuffer floats;
  private final DoubleBuffer doubles;

  /** A view of {@code length} bytes at an address that is aligned to the elements read here. */
  public HostView(long address, int length) {
    bytes = NativeMemory.view(address, length);
    shorts = bytes.asShortBuffer();
    ints = bytes.asIntBuffer();
    longs = bytes.asLongBuffer();
    floats = bytes.asFloatBuffer();
    doubles = bytes.asDoubleBuffer();
  }

  ByteBuffer bytes() {
    return bytes;
  }

  ShortBuffer shorts() {
    return shorts;
  }

  IntBuffer ints() {
    return ints;
  }

  LongBuffer longs() {
    return longs;
  }

  FloatBuffer floats() {
    return floats;
  }

  DoubleBuffer doubles() {
    return doubles;
  }
}
