package io.nvrar.it.soak.call;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;

/**
 * The memory of one side of a call, between two guard bands. Its content before and after the call
 * is given as a function of the element's index, which is negative or beyond the length in the
 * guard bands.
 */
final class Region implements AutoCloseable {
  private static final int GUARD = 16;
  private static final int SCRATCH_BYTES = 1 << 14;

  /** The bits of an element, in the low bytes. */
  interface Bits {
    long at(int index);
  }

  private final DataType type;
  private final int first;
  private final int length;
  private final DeviceBuffer whole;
  private final ByteBuffer scratch;

  Region(CollectiveGroup group, DataType type, int shift, int length) {
    this.type = type;
    this.length = length;
    first = GUARD + shift;
    whole = group.device().allocate(type, first + length + GUARD);
    scratch =
        ByteBuffer.allocate((int) Math.min(SCRATCH_BYTES, whole.sizeBytes()))
            .order(ByteOrder.nativeOrder());
  }

  /** The content of the guard bands, and of the receive buffer before the call. */
  static long pattern(int index) {
    return Dice.mix(index ^ 0x5A5A_5A5AL);
  }

  DeviceBuffer slice(int at, int count) {
    return whole.slice(first + at, count);
  }

  void fill(Bits bits) {
    int total = first + length + GUARD;
    for (int from = 0; from < total; ) {
      int n = Math.min(total - from, scratch.capacity() / type.sizeBytes());
      scratch.clear();
      for (int i = 0; i < n; i++) {
        put(bits.at(from + i - first));
      }
      scratch.flip();
      whole.slice(from, n).copyFrom(scratch);
      from += n;
    }
  }

  /** Throws at the first wrong element. */
  void verify(String what, Bits bits) {
    int total = first + length + GUARD;
    for (int from = 0; from < total; ) {
      int n = Math.min(total - from, scratch.capacity() / type.sizeBytes());
      scratch.clear().limit(n * type.sizeBytes());
      whole.slice(from, n).copyTo(scratch);
      scratch.flip();
      for (int i = 0; i < n; i++) {
        int index = from + i - first;
        long is = get();
        long mustBe = bits.at(index) & mask();
        if (is != mustBe) {
          throw new WrongResultException(
              String.format(
                  Locale.ROOT,
                  "%s: element %d of %d is 0x%x, must be 0x%x",
                  index < 0 || index >= length ? what + ", outside of the buffer" : what,
                  index,
                  length,
                  is,
                  mustBe));
        }
      }
      from += n;
    }
  }

  private long mask() {
    return -1L >>> (64 - 8 * type.sizeBytes());
  }

  private void put(long bits) {
    switch (type.sizeBytes()) {
      case 1 -> scratch.put((byte) bits);
      case 2 -> scratch.putShort((short) bits);
      case 4 -> scratch.putInt((int) bits);
      default -> scratch.putLong(bits);
    }
  }

  private long get() {
    return switch (type.sizeBytes()) {
      case 1 -> scratch.get() & 0xFFL;
      case 2 -> scratch.getShort() & 0xFFFFL;
      case 4 -> scratch.getInt() & 0xFFFF_FFFFL;
      default -> scratch.getLong();
    };
  }

  @Override
  public void close() {
    whole.close();
  }
}
