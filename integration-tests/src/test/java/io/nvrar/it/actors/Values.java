package io.nvrar.it.actors;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import java.util.Locale;
import java.util.function.IntToDoubleFunction;
import java.util.function.IntUnaryOperator;

/**
 * What ranks give and what must come of it. Small whole numbers, so that every type holds them, and
 * any reduction of up to eight ranks' of them but the mean, exactly. None is 0, as fresh memory is.
 */
final class Values {

  private Values() {}

  /** Element {@code i} of what a rank gives to a reduction. */
  static int given(int rank, int i, ReduceOp op) {
    int pattern = rank * 7 + i * 3 + i / 5;
    // Every other rank gives 1, because the product of eight must fit into 8 bits.
    return op == ReduceOp.PRODUCT ? 1 + (rank + i) % 2 * (pattern % 3) : 1 + pattern % 13;
  }

  /** Element {@code i} of what a rank gives to a collective that moves data. */
  static int given(int rank, int i) {
    return given(rank, i, ReduceOp.SUM);
  }

  /** What comes of all ranks' elements {@code i}. */
  static double reduced(int worldSize, int i, ReduceOp op) {
    double all = given(0, i, op);
    for (int rank = 1; rank < worldSize; rank++) {
      int next = given(rank, i, op);
      all =
          switch (op) {
            case SUM, AVG -> all + next;
            case PRODUCT -> all * next;
            case MAX -> Math.max(all, next);
            case MIN -> Math.min(all, next);
          };
    }
    return op == ReduceOp.AVG ? all / worldSize : all;
  }

  static void write(DeviceBuffer buffer, IntUnaryOperator value) {
    int count = Math.toIntExact(buffer.count());
    switch (buffer.dataType()) {
      case INT8, UINT8 -> {
        byte[] values = new byte[count];
        for (int i = 0; i < count; i++) {
          values[i] = (byte) value.applyAsInt(i);
        }
        buffer.copyFrom(values);
      }
      case INT32 -> {
        int[] values = new int[count];
        for (int i = 0; i < count; i++) {
          values[i] = value.applyAsInt(i);
        }
        buffer.copyFrom(values);
      }
      case INT64 -> {
        long[] values = new long[count];
        for (int i = 0; i < count; i++) {
          values[i] = value.applyAsInt(i);
        }
        buffer.copyFrom(values);
      }
      case FLOAT64 -> {
        double[] values = new double[count];
        for (int i = 0; i < count; i++) {
          values[i] = value.applyAsInt(i);
        }
        buffer.copyFrom(values);
      }
      case FLOAT16, FLOAT32, BFLOAT16 -> {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
          values[i] = value.applyAsInt(i);
        }
        buffer.copyFrom(values);
      }
    }
  }

  /** The first element that is not as expected, in words; "" if all are. */
  static String wrong(DeviceBuffer buffer, IntToDoubleFunction expected) {
    double[] found = read(buffer);
    for (int i = 0; i < found.length; i++) {
      double wanted = expected.applyAsDouble(i);
      // Only a mean may be no whole number, and is then rounded once.
      double allowed = wanted == Math.rint(wanted) ? 0 : Math.abs(wanted) * ulp(buffer.dataType());
      if (!(Math.abs(found[i] - wanted) <= allowed)) {
        return String.format(
            Locale.ROOT, "element %d of %d is %s, expected %s", i, found.length, found[i], wanted);
      }
    }
    return "";
  }

  private static double ulp(DataType type) {
    return switch (type) {
      case FLOAT64 -> 0x1p-52;
      case FLOAT32 -> 0x1p-23;
      case FLOAT16 -> 0x1p-10;
      case BFLOAT16 -> 0x1p-7;
      case INT8, UINT8, INT32, INT64 -> 0;
    };
  }

  private static double[] read(DeviceBuffer buffer) {
    double[] found = new double[Math.toIntExact(buffer.count())];
    switch (buffer.dataType()) {
      case INT8, UINT8 -> {
        byte[] values = new byte[found.length];
        buffer.copyTo(values);
        for (int i = 0; i < found.length; i++) {
          found[i] = buffer.dataType() == DataType.INT8 ? values[i] : Byte.toUnsignedInt(values[i]);
        }
      }
      case INT32 -> {
        int[] values = new int[found.length];
        buffer.copyTo(values);
        for (int i = 0; i < found.length; i++) {
          found[i] = values[i];
        }
      }
      case INT64 -> {
        long[] values = new long[found.length];
        buffer.copyTo(values);
        for (int i = 0; i < found.length; i++) {
          found[i] = values[i];
        }
      }
      case FLOAT64 -> buffer.copyTo(found);
      case FLOAT16, FLOAT32, BFLOAT16 -> {
        float[] values = new float[found.length];
        buffer.copyTo(values);
        for (int i = 0; i < found.length; i++) {
          found[i] = values[i];
        }
      }
    }
    return found;
  }
}
