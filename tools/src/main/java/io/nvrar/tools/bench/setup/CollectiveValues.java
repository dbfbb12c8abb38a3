package io.nvrar.tools.bench.setup;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.nio.ByteBuffer;

/**
 * The input and the expected output of every rank of a collective. The values are small whole
 * numbers whose results are exact in every type, so the expectation is integer arithmetic that
 * shares nothing with the library.
 *
 * @param count the count that is passed to the call
 */
public record CollectiveValues(
    TimedCollective collective, DataType type, ReduceOp op, int root, int world, long count) {

  /** Values for about {@code bytes} on the larger side, and at least one element. */
  public static CollectiveValues ofSize(Settings settings, long bytes) {
    TimedCollective collective = settings.collective();
    CollectiveValues one =
        new CollectiveValues(
            collective, settings.type(), settings.op(), settings.root(), settings.processes(), 1);
    if (collective == TimedCollective.BARRIER) {
      return one.withCount(0);
    }
    long parts = Math.max(one.sendElements(), one.recvElements());
    return one.withCount(Math.max(1, bytes / one.type.sizeBytes() / parts));
  }

  /** Values of so many rows of fused all-reduces. */
  public static CollectiveValues ofRows(Settings settings, FusedRows fused, int rows) {
    return new CollectiveValues(
        TimedCollective.ALL_REDUCE,
        settings.type(),
        settings.op(),
        settings.root(),
        settings.processes(),
        (long) rows * fused.hidden());
  }

  private CollectiveValues withCount(long elements) {
    return new CollectiveValues(collective, type, op, root, world, elements);
  }

  public long sendElements() {
    return switch (collective) {
      case REDUCE_SCATTER, ALL_TO_ALL -> count * world;
      default -> count;
    };
  }

  public long recvElements() {
    return switch (collective) {
      case ALL_GATHER, ALL_TO_ALL -> count * world;
      default -> count;
    };
  }

  /** The number of elements of the larger side. */
  public long elements() {
    return Math.max(sendElements(), recvElements());
  }

  public long bytes() {
    return elements() * type.sizeBytes();
  }

  public boolean hasInPlace() {
    return collective != TimedCollective.SEND_RECEIVE && collective != TimedCollective.BARRIER;
  }

  /** The offset of send in the shared buffer of a call in place, in elements. */
  public long sendOffsetInPlace(int rank) {
    return collective == TimedCollective.ALL_GATHER ? rank * count : 0;
  }

  /** The offset of recv in the shared buffer of a call in place, in elements. */
  public long recvOffsetInPlace(int rank) {
    return collective == TimedCollective.REDUCE_SCATTER ? rank * count : 0;
  }

  /** Writes {@link #sendElements()} elements. */
  public void fill(long seed, int rank, ByteBuffer send) {
    long mixed = mix(seed);
    for (long i = 0; i < sendElements(); i++) {
      put(send, input(mixed, rank, i));
    }
  }

  /** How many of {@link #recvElements()} elements are not what the ranks' inputs give. */
  public long wrong(long seed, int rank, ByteBuffer recv) {
    if (collective == TimedCollective.REDUCE && rank != root) {
      return 0;
    }
    long mixed = mix(seed);
    ByteBuffer expected = ByteBuffer.allocate(recv.remaining()).order(recv.order());
    for (long i = 0; i < recvElements(); i++) {
      put(expected, expected(mixed, rank, i));
    }
    expected.flip();
    if (expected.equals(recv)) {
      return 0;
    }
    int size = type.sizeBytes();
    long wrong = 0;
    for (int at = 0; at < expected.limit(); at += size) {
      if (!expected.slice(at, size).equals(recv.slice(recv.position() + at, size))) {
        wrong++;
      }
    }
    return wrong;
  }

  /** What an all-reduce has as its result. */
  long[] sums(long seed) {
    long mixed = mix(seed);
    long[] sums = new long[Math.toIntExact(count)];
    for (int i = 0; i < sums.length; i++) {
      sums[i] = reduced(mixed, i);
    }
    return sums;
  }

  /** A random whole number from -15 to 15, the i-th for that seed. */
  static int small(long seed, long i) {
    return (int) Long.remainderUnsigned(mix(mix(seed) ^ i), 31) - 15;
  }

  private void put(ByteBuffer target, long number) {
    switch (type) {
      case INT8, UINT8 -> target.put((byte) number);
      case INT32 -> target.putInt((int) number);
      case INT64 -> target.putLong(number);
      case FLOAT16 -> target.putShort(float16((int) number));
      case BFLOAT16 -> target.putShort((short) (Float.floatToRawIntBits((float) number) >> 16));
      case FLOAT32 -> target.putFloat((float) number);
      case FLOAT64 -> target.putDouble((double) number);
    }
  }

  // The numbers have at most 8 significant bits, so both 16-bit types hold them exactly.
  private static short float16(int number) {
    if (number == 0) {
      return 0;
    }
    int bits = Float.floatToRawIntBits(number);
    int exponent = ((bits >> 23) & 0xFF) - 127 + 15;
    return (short) (((bits >> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 0x3FF));
  }

  /** Element {@code i} of what a rank sends. */
  private long input(long seed, int rank, long i) {
    long random = mix(seed ^ ((long) rank << 56) ^ i);
    if (!collective.reduces()) {
      return Long.remainderUnsigned(random, 127);
    }
    long small = Long.remainderUnsigned(random, 31) - 15;
    return switch (op) {
      // Powers of two: eight of them multiply to at most 256.
      case PRODUCT -> ((random & 1) != 0 ? 2L : 1L) * ((random & 2) != 0 ? -1 : 1);
      // Divisible, so that the mean is whole.
      case AVG -> small * world;
      case MAX, MIN -> type == DataType.UINT8 ? small + 15 : small;
      case SUM -> small;
    };
  }

  private long reduced(long seed, long i) {
    long result = input(seed, 0, i);
    for (int rank = 1; rank < world; rank++) {
      long next = input(seed, rank, i);
      result =
          switch (op) {
            case PRODUCT -> result * next;
            case MAX -> Math.max(result, next);
            case MIN -> Math.min(result, next);
            case SUM, AVG -> result + next;
          };
    }
    return op == ReduceOp.AVG ? result / world : result;
  }

  /** Element {@code i} of what a rank receives. */
  private long expected(long seed, int rank, long i) {
    long part = rank * count;
    return switch (collective) {
      case ALL_REDUCE, REDUCE, BARRIER -> reduced(seed, i);
      case REDUCE_SCATTER -> reduced(seed, part + i);
      case ALL_GATHER -> input(seed, (int) (i / count), i % count);
      case ALL_TO_ALL -> input(seed, (int) (i / count), part + i % count);
      case BROADCAST -> input(seed, root, i);
      case SEND_RECEIVE -> input(seed, (rank + world - 1) % world, i);
    };
  }

  // splitmix64
  private static long mix(long value) {
    long z = value + 0x9E3779B97F4A7C15L;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
