package io.nvrar.internal;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import java.util.stream.IntStream;

/** The structs of {@code nvrar.h} as bytes, field by field in the header's order. */
final class NativeStructs {
  static final int CALL_BYTES = 40;
  static final int FAILURE_BYTES = 32;

  private static final int CONFIG_BYTES = 40;
  private static final int BROADCAST = 3;
  private static final int BARRIER = 4;

  private NativeStructs() {}

  /** {@code nvrar_config}. */
  static byte[] config(
      int backend, int rank, int worldSize, int device, long ringBytes, long timeoutNanos) {
    return allocate(CONFIG_BYTES)
        .putInt(backend)
        .putInt(rank)
        .putInt(worldSize)
        .putInt(device)
        .putInt(0)
        .putLong(ringBytes)
        .putLong(timeoutNanos)
        .array();
  }

  /** An {@code nvrar_call} or {@code nvrar_failure} for the library to fill. */
  static byte[] empty(int bytes) {
    return allocate(bytes).array();
  }

  /** What an {@code nvrar_call} says. */
  static CallRecord call(byte[] struct) {
    ByteBuffer in = read(struct);
    CallRecord.State state = state(in.getInt());
    long sequence = in.getLong();
    long count = in.getLong();
    int collective = in.getInt();
    int dataType = in.getInt();
    int op = in.getInt();
    int root = in.getInt();
    if (state == CallRecord.State.NONE) {
      return CallRecord.NONE;
    }
    return new CallRecord(
        state, sequence, describe(collective, sequence, count, dataType, op, root));
  }

  /** The ranks that an {@code nvrar_failure} names, ascending. */
  static int[] missingRanks(byte[] struct) {
    ByteBuffer in = read(struct);
    in.getInt();
    in.getLong();
    long[] words = {in.getLong(), in.getLong()};
    return IntStream.range(0, Long.SIZE * words.length)
        .filter(rank -> (words[rank / Long.SIZE] >>> rank & 1) != 0)
        .toArray();
  }

  // Spelt as the native library's own messages spell a call.
  private static String describe(
      int collective, long sequence, long count, int dataType, int op, int root) {
    String text = collectiveName(collective) + " #" + sequence;
    if (collective == BARRIER) {
      return text;
    }
    text += " " + typeName(dataType) + "[" + Long.toUnsignedString(count) + "]";
    if (op >= 0) {
      text += " " + opName(op);
    }
    return collective == BROADCAST ? text + " from root " + root : text;
  }

  private static CallRecord.State state(int code) {
    return switch (code) {
      case 0 -> CallRecord.State.NONE;
      case 1 -> CallRecord.State.RUNNING;
      case 2 -> CallRecord.State.DONE;
      case 3 -> CallRecord.State.FAILED;
      default -> throw new IllegalStateException("the native library has no call state " + code);
    };
  }

  private static String collectiveName(int code) {
    return switch (code) {
      case 1 -> "allReduce";
      case 2 -> "allGather";
      case BROADCAST -> "broadcast";
      case BARRIER -> "barrier";
      default -> "collective " + code;
    };
  }

  private static String typeName(int code) {
    for (DataType type : DataType.values()) {
      if (type.code() == code) {
        return type.name().toLowerCase(Locale.ROOT);
      }
    }
    return "type " + code;
  }

  private static String opName(int code) {
    for (ReduceOp op : ReduceOp.values()) {
      if (op.code() == code) {
        return op.name();
      }
    }
    return "op " + code;
  }

  private static ByteBuffer allocate(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder()).putInt(bytes);
  }

  private static ByteBuffer read(byte[] struct) {
    return ByteBuffer.wrap(struct).order(ByteOrder.nativeOrder()).position(Integer.BYTES);
  }
}
