package io.nvrar.internal.device.memory;

import io.nvrar.DataType;
import io.nvrar.HalfPrecision;
import io.nvrar.internal.device.memory.ElementBuffer.Part;
import java.nio.ByteBuffer;
import java.nio.ShortBuffer;

/**
 * Creates the {@link Part}s that copy a piece between an array, or a byte buffer, and host memory.
 */
final class Parts {
  private Parts() {}

  /** From floats, rounded to nearest even where the type is narrower. */
  static Part of(DataType type, float[] source, int sourceOffset) {
    return (view, index, done, count) -> {
      int from = sourceOffset + done;
      switch (type) {
        case FLOAT32 -> view.floats().put(index, source, from, count);
        case FLOAT16 -> {
          ShortBuffer target = view.shorts();
          for (int i = 0; i < count; i++) {
            target.put(index + i, HalfPrecision.floatToFloat16(source[from + i]));
          }
        }
        case BFLOAT16 -> {
          ShortBuffer target = view.shorts();
          for (int i = 0; i < count; i++) {
            target.put(index + i, HalfPrecision.floatToBfloat16(source[from + i]));
          }
        }
        default -> throw notFloats(type);
      }
    };
  }

  /** To floats, widened. */
  static Part into(DataType type, float[] target, int targetOffset) {
    return (view, index, done, count) -> {
      int to = targetOffset + done;
      switch (type) {
        case FLOAT32 -> view.floats().get(index, target, to, count);
        case FLOAT16 -> {
          ShortBuffer source = view.shorts();
          for (int i = 0; i < count; i++) {
            target[to + i] = HalfPrecision.float16ToFloat(source.get(index + i));
          }
        }
        case BFLOAT16 -> {
          ShortBuffer source = view.shorts();
          for (int i = 0; i < count; i++) {
            target[to + i] = HalfPrecision.bfloat16ToFloat(source.get(index + i));
          }
        }
        default -> throw notFloats(type);
      }
    };
  }

  static Part of(double[] source) {
    return (view, index, done, count) -> view.doubles().put(index, source, done, count);
  }

  static Part into(double[] target) {
    return (view, index, done, count) -> view.doubles().get(index, target, done, count);
  }

  static Part of(byte[] source) {
    return (view, index, done, count) -> view.bytes().put(index, source, done, count);
  }

  static Part into(byte[] target) {
    return (view, index, done, count) -> view.bytes().get(index, target, done, count);
  }

  static Part of(int[] source) {
    return (view, index, done, count) -> view.ints().put(index, source, done, count);
  }

  static Part into(int[] target) {
    return (view, index, done, count) -> view.ints().get(index, target, done, count);
  }

  static Part of(long[] source) {
    return (view, index, done, count) -> view.longs().put(index, source, done, count);
  }

  static Part into(long[] target) {
    return (view, index, done, count) -> view.longs().get(index, target, done, count);
  }

  /** From the remaining bytes; leaves the position. */
  static Part of(ByteBuffer source) {
    int from = source.position();
    return (view, index, done, count) -> view.bytes().put(index, source, from + done, count);
  }

  /** To the remaining bytes; leaves the position. */
  static Part into(ByteBuffer target) {
    int to = target.position();
    return (view, index, done, count) -> target.put(to + done, view.bytes(), index, count);
  }

  private static AssertionError notFloats(DataType type) {
    return new AssertionError("the check of a copy's type lets no " + type + " pass");
  }
}
