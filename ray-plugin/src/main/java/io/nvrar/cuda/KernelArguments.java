package io.nvrar.cuda;

import io.nvrar.Backend;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.binding.NativeMemory;
import io.nvrar.internal.device.host.HostDevice;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The arguments of a {@link CudaKernel}'s launch, laid out as C lays out the kernel's parameters.
 * {@link #parameter} begins each parameter, and the methods behind it add its fields: one field for
 * a plain parameter, several for a struct. A field begins at a multiple of its size. Values of 8
 * and 16 bits are structs of such bytes ({@link #struct}).
 *
 * <pre>{@code
 * // __global__ void scale(float* values, struct { float factor; int count; } how)
 * arguments.clear().parameter().pointer(values).parameter().float32(0.5f).int32(count);
 * }</pre>
 *
 * <p>At most 64 parameters of 4096 bytes together. May be refilled as soon as a launch has
 * returned, also a captured one, because the driver copies the arguments. Filling allocates
 * nothing. Not thread-safe.
 */
public final class KernelArguments {
  static final int MAX_PARAMETERS = 64;

  /** As many bytes of parameters as every GPU takes. */
  private static final int MAX_BYTES = 4096;

  /** The largest alignment of a parameter, which CUDA's tensor maps have. */
  private static final int ALIGNMENT = 64;

  // Each parameter begins at a multiple of the alignment, which takes more room than in a kernel.
  private final ByteBuffer bytes =
      ByteBuffer.allocateDirect(MAX_BYTES + (MAX_PARAMETERS + 1) * ALIGNMENT)
          .alignedSlice(ALIGNMENT)
          .order(ByteOrder.nativeOrder());
  private final ByteBuffer starts =
      ByteBuffer.allocateDirect(MAX_PARAMETERS * Long.BYTES).order(ByteOrder.nativeOrder());
  private final long address = NativeMemory.addressOf(bytes);
  private final long startsAddress = NativeMemory.addressOf(starts);
  private final int[] sizes = new int[MAX_PARAMETERS];
  private int count;

  /** The bytes of the parameters before the last one. */
  private int before;

  private int begin;
  private int alignment;

  /** No arguments yet. */
  public KernelArguments() {}

  /** Removes all parameters. */
  public KernelArguments clear() {
    bytes.clear();
    count = 0;
    before = 0;
    begin = 0;
    return this;
  }

  /**
   * Begins the next parameter, whose fields follow.
   *
   * @throws IllegalStateException if there are 64 parameters already
   */
  public KernelArguments parameter() {
    if (count == MAX_PARAMETERS) {
      throw new IllegalStateException("a launch has at most " + MAX_PARAMETERS + " parameters");
    }
    endParameter();
    before += count == 0 ? 0 : sizes[count - 1];
    begin = align(ALIGNMENT, 0);
    alignment = 1;
    starts.putLong(count * Long.BYTES, address + begin);
    count++;
    return this;
  }

  /** Adds a 32-bit integer. */
  public KernelArguments int32(int value) {
    bytes.putInt(field(Integer.BYTES), value);
    return this;
  }

  /** Adds a 64-bit integer, or an address. */
  public KernelArguments int64(long value) {
    bytes.putLong(field(Long.BYTES), value);
    return this;
  }

  /** Adds a 32-bit float. */
  public KernelArguments float32(float value) {
    bytes.putFloat(field(Float.BYTES), value);
    return this;
  }

  /** Adds a 64-bit float. */
  public KernelArguments float64(double value) {
    bytes.putDouble(field(Double.BYTES), value);
    return this;
  }

  /**
   * Adds a pointer to a buffer's first element; null for a null pointer. The buffer must stay open
   * until the kernel has run, and in a captured graph as long as the graph.
   *
   * @throws IllegalArgumentException if the buffer is host memory that is not pinned
   */
  public KernelArguments pointer(@Nullable DeviceBuffer buffer) {
    if (buffer == null) {
      return int64(0);
    }
    if (buffer.device().backend() == Backend.CPU && !HostDevice.isPinned(buffer)) {
      throw new IllegalArgumentException(
          "a kernel needs memory of a GPU or memory that allocatePinned gave, not " + buffer);
    }
    return int64(buffer.address());
  }

  /**
   * Adds a struct as it is in memory, for example a {@code CUtensorMap}: a parameter of its own, or
   * a field of one.
   *
   * @param struct its bytes, from the position to the limit, which stay as they are
   * @param structAlignment {@code alignof} the struct: a power of 2, at most 64
   * @throws IllegalArgumentException if the alignment is none, or the struct is empty
   */
  public KernelArguments struct(ByteBuffer struct, int structAlignment) {
    if (structAlignment < 1
        || structAlignment > ALIGNMENT
        || Integer.bitCount(structAlignment) != 1) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the alignment of a struct is %d, must be a power of 2 up to %d",
              structAlignment,
              ALIGNMENT));
    }
    int size = struct.remaining();
    if (size == 0) {
      throw new IllegalArgumentException("a struct of a kernel's parameter has no bytes");
    }
    bytes.put(field(size, structAlignment), struct, struct.position(), size);
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

  /** {@code sizeof} each parameter. */
  int[] sizes() {
    endParameter();
    return Arrays.copyOf(sizes, count);
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
    return field(size, size);
  }

  private int field(int size, int fieldAlignment) {
    if (count == 0) {
      throw new IllegalStateException("a field has no parameter to belong to");
    }
    int at = align(fieldAlignment, size);
    if (before + at + size - begin > MAX_BYTES) {
      throw tooLarge();
    }
    bytes.position(at + size);
    alignment = Math.max(alignment, fieldAlignment);
    return at;
  }

  // A struct's size is a multiple of its alignment, so that structs can stand in an array.
  private void endParameter() {
    if (count > 0) {
      int size = bytes.position() - begin;
      sizes[count - 1] = (size + alignment - 1) / alignment * alignment;
    }
  }

  private static IllegalStateException tooLarge() {
    return new IllegalStateException(
        "the parameters of a launch have at most " + MAX_BYTES + " bytes");
  }

  private int align(int to, int room) {
    int at = (bytes.position() + to - 1) / to * to;
    if (at + room > bytes.capacity()) {
      throw tooLarge();
    }
    bytes.position(at);
    return at;
  }
}
