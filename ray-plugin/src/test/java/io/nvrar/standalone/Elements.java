package io.nvrar.standalone;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.HalfPrecision;
import io.nvrar.ReduceOp;

/** Buffers of any type as doubles, and what a reduction of small values gives in each type. */
final class Elements {
  private Elements() {}

  /** Fills a buffer; the values are stored as its type holds them. */
  static void write(DeviceBuffer buffer, double... values) {
    switch (buffer.dataType()) {
      case INT8, UINT8 -> {
        byte[] bytes = new byte[values.length];
        for (int i = 0; i < values.length; i++) {
          bytes[i] = (byte) (long) values[i];
        }
        buffer.copyFrom(bytes);
      }
      case INT32 -> {
        int[] ints = new int[values.length];
        for (int i = 0; i < values.length; i++) {
          ints[i] = (int) (long) values[i];
        }
        buffer.copyFrom(ints);
      }
      case INT64 -> {
        long[] longs = new long[values.length];
        for (int i = 0; i < values.length; i++) {
          longs[i] = (long) values[i];
        }
        buffer.copyFrom(longs);
      }
      case FLOAT16, FLOAT32, BFLOAT16 -> {
        float[] floats = new float[values.length];
        for (int i = 0; i < values.length; i++) {
          floats[i] = (float) values[i];
        }
        buffer.copyFrom(floats);
      }
      case FLOAT64 -> buffer.copyFrom(values);
    }
  }

  /** All elements of a buffer. */
  static double[] read(DeviceBuffer buffer) {
    int count = (int) buffer.count();
    double[] values = new double[count];
    switch (buffer.dataType()) {
      case INT8, UINT8 -> {
        byte[] bytes = new byte[count];
        buffer.copyTo(bytes);
        boolean signed = buffer.dataType() == DataType.INT8;
        for (int i = 0; i < count; i++) {
          values[i] = signed ? bytes[i] : Byte.toUnsignedInt(bytes[i]);
        }
      }
      case INT32 -> {
        int[] ints = new int[count];
        buffer.copyTo(ints);
        for (int i = 0; i < count; i++) {
          values[i] = ints[i];
        }
      }
      case INT64 -> {
        long[] longs = new long[count];
        buffer.copyTo(longs);
        for (int i = 0; i < count; i++) {
          values[i] = longs[i];
        }
      }
      case FLOAT16, FLOAT32, BFLOAT16 -> {
        float[] floats = new float[count];
        buffer.copyTo(floats);
        for (int i = 0; i < count; i++) {
          values[i] = floats[i];
        }
      }
      case FLOAT64 -> buffer.copyTo(values);
    }
    return values;
  }

  /** What the ranks' values of one element are reduced to, if all but the last step is exact. */
  static double reduce(DataType type, ReduceOp op, double... ofRanks) {
    double result = ofRanks[0];
    for (int rank = 1; rank < ofRanks.length; rank++) {
      result =
          switch (op) {
            case SUM, AVG -> result + ofRanks[rank];
            case PRODUCT -> result * ofRanks[rank];
            case MAX -> Math.max(result, ofRanks[rank]);
            case MIN -> Math.min(result, ofRanks[rank]);
          };
    }
    if (op == ReduceOp.AVG) {
      result =
          type == DataType.FLOAT64
              ? result / ofRanks.length
              : (float) result / (float) ofRanks.length;
    }
    return stored(type, result);
  }

  /** A value as an element of the type holds it. */
  static double stored(DataType type, double value) {
    return switch (type) {
      case INT8 -> (byte) (long) value;
      case UINT8 -> Byte.toUnsignedInt((byte) (long) value);
      case INT32 -> (int) (long) value;
      case INT64 -> (long) value;
      case FLOAT16 -> HalfPrecision.float16ToFloat(HalfPrecision.floatToFloat16((float) value));
      case FLOAT32 -> (float) value;
      case FLOAT64 -> value;
      case BFLOAT16 -> HalfPrecision.bfloat16ToFloat(HalfPrecision.floatToBfloat16((float) value));
    };
  }
}
