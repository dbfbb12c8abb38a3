package io.nvrar.internal.binding;

import static java.util.Objects.requireNonNull;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Collective;
import io.nvrar.CollectiveStatistics;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.TuningTable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Encodes and decodes the structs of {@code nvrar.h} as bytes, field by field in the header's
 * order.
 */
final class NativeStructs {
  static final int CALL_BYTES = 88;
  static final int FAILURE_BYTES = 88;
  static final int LINK_BYTES = 152;
  static final int STATISTICS_BYTES = 416;
  static final int WAIT_BYTES = 24;
  static final int TRANSFER_BYTES = 32;
  static final int FUSION_BYTES = 80;
  static final int TOP_K_BYTES = 56;
  static final int CPU = 1;
  static final int CUDA = 2;

  static final int SEND = 8;
  static final int RECV = 9;

  private static final int ORIGIN_OFFSET = 32;

  /** Where the words of the missing ranks are: the first two, and the others. */
  private static final int MISSING_OFFSET = 16;

  private static final int MORE_MISSING_OFFSET = 40;
  private static final int MISSING_WORDS =
      (ORIGIN_OFFSET - MISSING_OFFSET + FAILURE_BYTES - MORE_MISSING_OFFSET) / Long.BYTES;
  private static final int CONFIG_BYTES = 184;
  private static final int LINK_ADDRESS_BYTES = 48;
  private static final int LINK_END_BYTES = 64;
  private static final int LINK_OPEN = 1;
  private static final int LINK_ASKED_OFFSET = 8 + 2 * LINK_END_BYTES;
  private static final int LINK_ANSWERED_OFFSET = LINK_ASKED_OFFSET + Long.BYTES;
  private static final int RULE_BYTES = 48;
  private static final int STATISTICS_TYPES = 11;
  private static final int ANY_TYPE = -1;
  private static final int WAIT_COUNT_OFFSET = 8;
  static final int BROADCAST = 3;
  static final int BARRIER = 4;
  static final int REDUCE = 5;

  private NativeStructs() {}

  /**
   * {@code nvrar_config}.
   *
   * @param sharedDevices whether several ranks may be on one GPU
   */
  static byte[] config(
      int backend,
      int rank,
      int worldSize,
      int device,
      boolean sharedDevices,
      Links links,
      GroupConfig config) {
    return allocate(CONFIG_BYTES)
        .putInt(backend)
        .putInt(rank)
        .putInt(worldSize)
        .putInt(device)
        .putInt(config.gpusPerNode())
        .putLong(config.ringBytes())
        .putLong(config.timeout().toNanos())
        .putInt(config.cuda().memory().code())
        .putInt(config.cuda().concurrentGroups())
        .putInt(sharedDevices ? 1 : 0)
        .putInt(config.cuda().exclusive() ? 1 : 0)
        .putLong(config.cuda().arenaBytes())
        .putLong(joinLimit(config).toNanos())
        .putInt(config.cuda().programmaticLaunch() ? 1 : 0)
        .putInt(0)
        .put(address(links.address()))
        .putShort((short) config.links().firstPort())
        .putShort((short) config.links().lastPort())
        .putInt(links.betweenNodes() ? 1 : 0)
        .putInt(config.links().security().code())
        .putInt(config.links().threads())
        .put(links.secret())
        .putLong(config.links().spin().toNanos())
        .array();
  }

  /**
   * The limit of {@code nvrar_connect}. The rendezvous has one of its own, which began earlier:
   * that of links is shorter, because the library knows which rank could not reach which address.
   */
  private static Duration joinLimit(GroupConfig config) {
    return config.joinTimeout().multipliedBy(3).dividedBy(4);
  }

  private static byte[] address(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
    if (bytes.length >= LINK_ADDRESS_BYTES) {
      throw new IllegalArgumentException(text + " is longer than an address");
    }
    return Arrays.copyOf(bytes, LINK_ADDRESS_BYTES);
  }

  /** An array of {@code nvrar_tuning_rule}. */
  static byte[] rules(List<TuningTable.Rule> rules) {
    ByteBuffer out = ByteBuffer.allocate(rules.size() * RULE_BYTES).order(ByteOrder.nativeOrder());
    for (TuningTable.Rule rule : rules) {
      DataType type = rule.dataType();
      out.putInt(RULE_BYTES)
          .putInt(type == null ? ANY_TYPE : type.code())
          .putInt(rule.worldSize())
          .putInt(rule.gpusPerNode())
          .putInt(rule.algorithm().code())
          .putInt(rule.collective().code())
          .putLong(rule.bytesMax())
          .putInt(rule.architectureCode())
          .putInt(rule.shape().blocks())
          .putInt(rule.shape().threads())
          .putInt(rule.shape().tiles());
    }
    return out.array();
  }

  /** Writes an array of {@code nvrar_transfer}. Allocates nothing. */
  static void putTransfers(ByteBuffer array, Call call) {
    for (int i = 0; i < call.size(); i++) {
      int at = i * TRANSFER_BYTES;
      DeviceBuffer buffer = requireNonNull(call.buffer(i));
      array
          .putInt(at, TRANSFER_BYTES)
          .putInt(at + 4, call.isSend(i) ? SEND : RECV)
          .putInt(at + 8, call.peer(i))
          .putInt(at + 12, buffer.dataType().code())
          .putLong(at + 16, buffer.address())
          .putLong(at + 24, buffer.count());
    }
  }

  /** Writes an {@code nvrar_fused_all_reduce}. Allocates nothing. */
  static void putFusion(ByteBuffer struct, Call call) {
    AllReduceFusion fusion = requireNonNull(call.fusion());
    struct
        .putInt(0, FUSION_BYTES)
        .putInt(4, fusion.form().code())
        .putInt(8, fusion.dataType().code())
        .putInt(12, requireNonNull(call.algorithm()).code())
        .putInt(16, (int) fusion.rows())
        .putInt(20, fusion.hidden())
        .putFloat(24, fusion.eps())
        .putInt(28, 0)
        .putLong(32, call.send().address())
        .putLong(40, address(fusion.residualIn()))
        .putLong(48, address(fusion.weight()))
        .putLong(56, address(fusion.residualOut()))
        .putLong(64, fusion.output().address())
        .putLong(72, address(fusion.squares()));
  }

  /** Writes an {@code nvrar_selection}. Allocates nothing. */
  static void putTopK(ByteBuffer struct, Call call) {
    TopK topK = requireNonNull(call.topK());
    struct
        .putInt(0, TOP_K_BYTES)
        .putInt(4, call.send().dataType().code())
        .putInt(8, topK.rows())
        .putInt(12, topK.k())
        .putLong(16, topK.columns())
        .putLong(24, topK.firstIndex())
        .putLong(32, call.send().address())
        .putLong(40, address(topK.values()))
        .putLong(48, topK.indices().address());
  }

  /** The address of a buffer; 0 of none. */
  static long address(@Nullable DeviceBuffer buffer) {
    return buffer == null ? 0 : buffer.address();
  }

  /** An {@code nvrar_call} or {@code nvrar_failure} for the library to fill. */
  static byte[] empty(int bytes) {
    return allocate(bytes).array();
  }

  /**
   * Makes an array of {@code nvrar_call} for the library to fill; the first element has the size of
   * each.
   */
  static byte[] emptyCalls(int count) {
    ByteBuffer array = ByteBuffer.allocate(count * CALL_BYTES).order(ByteOrder.nativeOrder());
    if (count > 0) {
      array.putInt(CALL_BYTES);
    }
    return array.array();
  }

  /** Decodes an {@code nvrar_call}. */
  static CallRecord call(byte[] struct) {
    return call(read(struct));
  }

  /** Decodes the first {@code count} entries of an array of {@code nvrar_call}. */
  static List<CallRecord> calls(byte[] array, int count) {
    List<CallRecord> calls = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      int size = Integer.BYTES;
      calls.add(
          call(
              ByteBuffer.wrap(array, i * CALL_BYTES + size, CALL_BYTES - size)
                  .order(ByteOrder.nativeOrder())));
    }
    return calls;
  }

  /** Decodes a small {@code uint32_t}. */
  static int count(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).getInt();
  }

  private static CallRecord call(ByteBuffer in) {
    CallRecord.State state = state(in.getInt());
    long sequence = in.getLong();
    long count = in.getLong();
    int collective = in.getInt();
    int dataType = in.getInt();
    int op = in.getInt();
    int root = in.getInt();
    int algorithm = in.getInt();
    int transfers = in.getInt();
    long launches = in.getLong();
    long groupSequence = in.getLong();
    long beginNanos = in.getLong();
    long endNanos = in.getLong();
    int fusion = in.getInt();
    int hidden = in.getInt();
    if (state == CallRecord.State.NONE) {
      return CallRecord.NONE;
    }
    String payload = describePayload(dataType, count, hidden, op, fusion);
    boolean isTransfer = collective == SEND || collective == RECV;
    return new CallRecord(
        state,
        collective,
        sequence,
        describe(collective, sequence, payload, root, algorithm, transfers, launches),
        algorithm,
        launches,
        groupSequence,
        isTransfer ? root : -1,
        transfers,
        beginNanos,
        endNanos);
  }

  /** Decodes an {@code nvrar_link}; null if there is none. */
  static @Nullable String link(byte[] struct) {
    ByteBuffer in = read(struct);
    int state = in.getInt();
    if (state == 0) {
      return null;
    }
    byte[] local = new byte[LINK_END_BYTES];
    byte[] remote = new byte[LINK_END_BYTES];
    in.get(local).get(remote);
    return text(local) + " to " + text(remote) + ", " + linkState(state);
  }

  /**
   * Whether all that the rank at the other end of an {@code nvrar_link} sent before the question
   * behind this one has come: it has answered that one or a later one, or will say nothing more.
   */
  static boolean hasAnsweredAfter(byte[] struct, long question) {
    ByteBuffer in = read(struct);
    return in.getInt() != LINK_OPEN || in.getLong(LINK_ANSWERED_OFFSET) > question;
  }

  /** How often {@code nvrar_refresh} has asked, in an {@code nvrar_link}. */
  static long asked(byte[] struct) {
    return read(struct).getLong(LINK_ASKED_OFFSET);
  }

  /** Decodes an {@code nvrar_statistics}. */
  static CollectiveStatistics statistics(Collective collective, byte[] struct) {
    ByteBuffer in = read(struct);
    in.getInt(); // the collective
    long failed = in.getLong();
    long timedNanos = in.getLong();
    return new CollectiveStatistics(
        collective,
        failed,
        timedNanos,
        longs(in, STATISTICS_TYPES),
        longs(in, STATISTICS_TYPES),
        longs(in, CollectiveStatistics.buckets()));
  }

  private static long[] longs(ByteBuffer in, int count) {
    long[] values = new long[count];
    for (int i = 0; i < count; i++) {
      values[i] = in.getLong();
    }
    return values;
  }

  /** How often, in an {@code nvrar_wait}. */
  static long waits(byte[] struct) {
    return read(struct).getLong(WAIT_COUNT_OFFSET);
  }

  /** How long together, in an {@code nvrar_wait}. */
  static long waitNanos(byte[] struct) {
    return read(struct).getLong(WAIT_COUNT_OFFSET + Long.BYTES);
  }

  /** Decodes text that ends with a NUL. */
  static String text(byte[] room) {
    int end = 0;
    while (room[end] != 0) {
      end++;
    }
    return new String(room, 0, end, StandardCharsets.UTF_8);
  }

  private static String linkState(int code) {
    return switch (code) {
      case LINK_OPEN -> "open";
      case 2 -> "closed";
      case 3 -> "broken";
      default -> throw new IllegalStateException("the native library has no link state " + code);
    };
  }

  /** The ranks in an {@code nvrar_failure}, ascending. */
  static int[] missingRanks(byte[] struct) {
    ByteBuffer in = read(struct);
    LongBuffer words = LongBuffer.allocate(MISSING_WORDS);
    for (int at = MISSING_OFFSET; at < ORIGIN_OFFSET; at += Long.BYTES) {
      words.put(in.getLong(at));
    }
    for (int at = MORE_MISSING_OFFSET; at < FAILURE_BYTES; at += Long.BYTES) {
      words.put(in.getLong(at));
    }
    return BitSet.valueOf(words.flip()).stream().toArray();
  }

  /** The rank that found the failure in an {@code nvrar_failure}. */
  static int origin(byte[] struct) {
    return read(struct).getInt(ORIGIN_OFFSET);
  }

  // In the format of the native library's own messages.
  private static String describe(
      int collective,
      long sequence,
      String payload,
      int root,
      int algorithm,
      int transfers,
      long launches) {
    String text = collectiveName(collective) + " #" + sequence;
    if (collective == BARRIER) {
      return text;
    }
    text += " " + payload;
    text +=
        switch (collective) {
          case BROADCAST -> " from root " + root;
          case REDUCE -> " to root " + root;
          case SEND -> " to rank " + root;
          case RECV -> " from rank " + root;
          default -> "";
        };
    if (transfers > 1) {
      text += " in a batch of " + transfers;
    }
    return text + describePlan(algorithm, launches);
  }

  private static String describePayload(int dataType, long count, int hidden, int op, int fusion) {
    String elements = Long.toUnsignedString(count);
    if (hidden != 0) {
      long rows = Long.divideUnsigned(count, Integer.toUnsignedLong(hidden));
      elements = Long.toUnsignedString(rows) + " x " + Integer.toUnsignedString(hidden);
    }
    return typeName(dataType)
        + "["
        + elements
        + "]"
        + (op < 0 ? "" : " " + opName(op))
        + fusionName(fusion);
  }

  private static String describePlan(int algorithm, long launches) {
    List<String> plan = new ArrayList<>();
    if (algorithm != Algorithm.AUTO.code()) {
      plan.add(algorithmName(algorithm));
    }
    if (launches > 1) {
      plan.add(launches + " launches");
    }
    return plan.isEmpty() ? "" : " (" + String.join(", ", plan) + ")";
  }

  private static CallRecord.State state(int code) {
    return switch (code) {
      case 0 -> CallRecord.State.NONE;
      case 1 -> CallRecord.State.RUNNING;
      case 2 -> CallRecord.State.DONE;
      case 3 -> CallRecord.State.FAILED;
      case 4 -> CallRecord.State.QUEUED;
      // Others may write the memory it is read from, and a member must be able to end nevertheless.
      default -> CallRecord.State.NONE;
    };
  }

  private static String collectiveName(int code) {
    for (Collective collective : Collective.values()) {
      if (collective.code() == code) {
        return collective.method();
      }
    }
    return "collective " + code;
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

  private static String fusionName(int code) {
    return switch (code) {
      case 0 -> "";
      case 1 -> " + residual";
      case 2 -> " + bias";
      case 3 -> " + residual + RMS norm";
      case 4 -> " + residual + RMS fold";
      default -> " + form " + code;
    };
  }

  private static String algorithmName(int code) {
    for (Algorithm algorithm : Algorithm.values()) {
      if (algorithm.code() == code) {
        return algorithm.name().toLowerCase(Locale.ROOT).replace('_', '-');
      }
    }
    return "algorithm " + code;
  }

  private static ByteBuffer allocate(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder()).putInt(bytes);
  }

  private static ByteBuffer read(byte[] struct) {
    return ByteBuffer.wrap(struct).order(ByteOrder.nativeOrder()).position(Integer.BYTES);
  }
}
