package io.nvrar.it.soak.call;

import io.nvrar.DataType;
import io.nvrar.HalfPrecision;
import io.nvrar.ReduceOp;

/**
 * Computes the exact result of a reduction: an independent implementation of
 * docs/concepts/protocol.md 10, in Java, one element at a time. Knows types and operations by the
 * codes of the C ABI.
 *
 * <p>An element's bits are in the low bytes of a long. An accumulator is a long, too: an integer's
 * value, a float's or a double's bits.
 */
final class Reference {
  private static final int PRODUCT = 1;
  private static final int MAX = 2;
  private static final int MIN = 3;
  private static final int AVG = 4;

  private enum Kind {
    INTEGER,
    FLOAT,
    DOUBLE
  }

  private final int type;
  private final int op;
  private final Kind kind;
  private final int[] nodeSizes;

  Reference(DataType type, ReduceOp op, Shape shape) {
    this.type = type.code();
    this.op = op.code();
    kind =
        switch (this.type) {
          case 0, 1, 2, 4 -> Kind.INTEGER;
          case 6, 7, 9 -> Kind.FLOAT;
          case 8 -> Kind.DOUBLE;
          default -> throw new IllegalArgumentException("no reference for the type " + type);
        };
    nodeSizes = shape.nodes().stream().mapToInt(Integer::intValue).toArray();
  }

  /** The bits of one element of the result, from that element of every rank. */
  long reduce(long[] ofRank) {
    if (ofRank.length == 1) {
      return ofRank[0];
    }
    long[] partials = new long[nodeSizes.length];
    int rank = 0;
    for (int node = 0; node < nodeSizes.length; node++) {
      long sum = widen(ofRank[rank++]);
      for (int i = 1; i < nodeSizes[node]; i++) {
        sum = combine(sum, widen(ofRank[rank++]));
      }
      partials[node] = sum;
    }
    for (int n = partials.length; n > 1; n = (n + 1) / 2) {
      for (int i = 0; 2 * i < n; i++) {
        boolean odd = 2 * i + 1 == n;
        partials[i] = odd ? partials[2 * i] : combine(partials[2 * i], partials[2 * i + 1]);
      }
    }
    return narrow(op == AVG ? divide(partials[0], ofRank.length) : partials[0]);
  }

  private long widen(long bits) {
    return switch (type) {
      case 0 -> (byte) bits;
      case 1 -> bits & 0xFF;
      case 2 -> (int) bits;
      case 6 -> Float.floatToRawIntBits(HalfPrecision.float16ToFloat((short) bits));
      case 9 -> Float.floatToRawIntBits(HalfPrecision.bfloat16ToFloat((short) bits));
      default -> bits;
    };
  }

  private long narrow(long accumulator) {
    if (kind == Kind.INTEGER) {
      return accumulator; // the caller reads only the element's own bytes
    }
    if (kind == Kind.DOUBLE) {
      double value = Double.longBitsToDouble(accumulator);
      return Double.isNaN(value) ? 0x7FF8_0000_0000_0000L : accumulator;
    }
    float value = Float.intBitsToFloat((int) accumulator);
    if (Float.isNaN(value)) {
      return type == 7 ? 0x7FFF_FFFF : 0x7FFF;
    }
    return switch (type) {
      case 6 -> HalfPrecision.floatToFloat16(value);
      case 9 -> HalfPrecision.floatToBfloat16(value);
      default -> accumulator;
    };
  }

  private long combine(long a, long b) {
    return switch (kind) {
      case INTEGER -> combineIntegers(a, b);
      case FLOAT ->
          Float.floatToRawIntBits(
              combineFloats(Float.intBitsToFloat((int) a), Float.intBitsToFloat((int) b)));
      case DOUBLE ->
          Double.doubleToRawLongBits(
              combineDoubles(Double.longBitsToDouble(a), Double.longBitsToDouble(b)));
    };
  }

  private long combineIntegers(long a, long b) {
    return switch (op) {
      case PRODUCT -> widen(a * b);
      case MAX -> Math.max(a, b);
      case MIN -> Math.min(a, b);
      default -> widen(a + b);
    };
  }

  // Math.max and Math.min propagate NaN and order -0 below +0, as the protocol does.
  private float combineFloats(float a, float b) {
    return switch (op) {
      case PRODUCT -> a * b;
      case MAX -> Math.max(a, b);
      case MIN -> Math.min(a, b);
      default -> a + b;
    };
  }

  private double combineDoubles(double a, double b) {
    return switch (op) {
      case PRODUCT -> a * b;
      case MAX -> Math.max(a, b);
      case MIN -> Math.min(a, b);
      default -> a + b;
    };
  }

  private long divide(long sum, int worldSize) {
    return switch (kind) {
      case FLOAT -> Float.floatToRawIntBits(Float.intBitsToFloat((int) sum) / worldSize);
      case DOUBLE -> Double.doubleToRawLongBits(Double.longBitsToDouble(sum) / worldSize);
      case INTEGER -> throw new IllegalStateException("the average of integers is refused");
    };
  }
}
