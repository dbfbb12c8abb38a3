package io.nvrar.examples.llama.engine.cuda;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import io.nvrar.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;

/**
 * The parameters of a launch, laid out as C lays them out: each parameter is a struct, or a single
 * value, and each field of it begins at a multiple of its size. May be refilled once the launch has
 * returned, because the driver copies the parameters. Not thread-safe.
 */
final class Arguments {
  /** As many as a kernel can have bytes of parameters on every GPU. */
  private static final int MAX_BYTES = 4096;

  static final int MAX_PARAMETERS = 8;

  /** The largest alignment that a parameter here has: that of a {@link TensorMap}. */
  private static final int ALIGNMENT = 64;

  private final ByteBuffer bytes =
      ByteBuffer.allocateDirect(MAX_BYTES + ALIGNMENT)
          .alignedSlice(ALIGNMENT)
          .order(ByteOrder.nativeOrder());
  private final ByteBuffer starts =
      ByteBuffer.allocateDirect(MAX_PARAMETERS * Long.BYTES).order(ByteOrder.nativeOrder());
  private final long address = Pointer.nativeValue(Native.getDirectBufferPointer(bytes));
  private final long startsAddress = Pointer.nativeValue(Native.getDirectBufferPointer(starts));
  private final int[] sizes = new int[MAX_PARAMETERS];
  private int count;
  private int begin;
  private int alignment;

  /** Removes all parameters. */
  Arguments clear() {
    bytes.clear();
    count = 0;
    begin = 0;
    return this;
  }

  /** Begins the next parameter, whose fields follow. */
  Arguments parameter() {
    endParameter();
    begin = align(ALIGNMENT);
    alignment = 1;
    starts.putLong(count * Long.BYTES, address + begin);
    count++;
    return this;
  }

  Arguments int32(int value) {
    bytes.putInt(field(Integer.BYTES), value);
    return this;
  }

  Arguments float32(float value) {
    bytes.putFloat(field(Float.BYTES), value);
    return this;
  }

  /** A 64-bit number, or an address. */
  Arguments int64(long value) {
    bytes.putLong(field(Long.BYTES), value);
    return this;
  }

  /** A pointer to a buffer; null for none. */
  Arguments pointer(@Nullable DeviceBuffer buffer) {
    return int64(buffer == null ? 0 : buffer.address());
  }

  /** A parameter of its own: a tensor map by value. */
  Arguments tensorMap(TensorMap map) {
    parameter();
    ByteBuffer descriptor = map.descriptor();
    bytes.put(begin, descriptor, 0, TensorMap.BYTES);
    bytes.position(begin + TensorMap.BYTES);
    alignment = TensorMap.ALIGNMENT;
    return this;
  }

  /** The address of the array of the parameters' addresses, for the driver. */
  long pointers() {
    endParameter();
    return startsAddress;
  }

  int count() {
    return count;
  }

  /** {@code sizeof} a parameter. */
  int size(int parameter) {
    endParameter();
    return sizes[parameter];
  }

  /** The bytes of a parameter. */
  ByteBuffer bytesOf(int parameter) {
    int start = (int) (starts.getLong(parameter * Long.BYTES) - address);
    return bytes
        .duplicate()
        .order(bytes.order())
        .clear()
        .position(start)
        .limit(start + size(parameter))
        .slice()
        .order(bytes.order());
  }

  private int field(int size) {
    if (count == 0) {
      throw new IllegalStateException("a field has no parameter to belong to");
    }
    int at = align(size);
    bytes.position(at + size);
    alignment = Math.max(alignment, size);
    return at;
  }

  // A struct's size is a multiple of its alignment, so that structs can stand in an array.
  private void endParameter() {
    if (count > 0) {
      int size = bytes.position() - begin;
      sizes[count - 1] = (size + alignment - 1) / alignment * alignment;
    }
  }

  private int align(int size) {
    int at = (bytes.position() + size - 1) / size * size;
    bytes.position(at);
    return at;
  }
}
