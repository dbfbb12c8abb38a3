package io.nvrar.examples.training;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint: options, losses so far and replica state. The file adds a magic number, a length
 * and a CRC32C.
 */
final class Checkpoint {
  private final Map<String, String> options;
  private final float[] losses;
  private final byte[] state;

  /**
   * Creates a checkpoint. The arrays are not copied.
   *
   * @param options of the run and its text
   * @param losses of the steps so far
   * @param state of a replica
   */
  Checkpoint(Map<String, String> options, float[] losses, byte[] state) {
    this.options = options;
    this.losses = losses;
    this.state = state;
  }

  /** Of the run and its text. */
  Map<String, String> options() {
    return options;
  }

  /** Of the steps so far; not copied. */
  float[] losses() {
    return losses;
  }

  /** Of a replica, empty before the first step; not copied. */
  byte[] state() {
    return state;
  }

  private static final long MAGIC = 0x312d54504752414eL;
  private static final int HEAD_BYTES = Long.BYTES + Long.BYTES;

  /** How many steps were done. */
  int steps() {
    return losses.length;
  }

  byte[] encode() {
    byte[] lines = String.join("\n", lines(options)).getBytes(UTF_8);
    int rest =
        Integer.BYTES
            + lines.length
            + Integer.BYTES
            + Float.BYTES * losses.length
            + state.length
            + Long.BYTES;
    ByteBuffer bytes = ByteBuffer.allocate(HEAD_BYTES + rest).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putLong(MAGIC).putLong(rest).putInt(lines.length).put(lines).putInt(losses.length);
    for (float loss : losses) {
      bytes.putFloat(loss);
    }
    bytes.put(state);
    bytes.putLong(sum(bytes.array(), bytes.position()));
    return bytes.array();
  }

  private static Iterable<String> lines(Map<String, String> options) {
    return options.entrySet().stream().map(e -> e.getKey() + '\t' + e.getValue()).toList();
  }

  private static long sum(byte[] bytes, int count) {
    CRC32C sum = new CRC32C();
    sum.update(bytes, 0, count);
    return sum.getValue();
  }

  /**
   * Reads what {@link #encode} has written.
   *
   * @param name the checkpoint's name in messages
   * @throws TrainingException if it is none, or not whole
   */
  static Checkpoint decode(byte[] encoded, String name) {
    ByteBuffer bytes = ByteBuffer.wrap(encoded).order(ByteOrder.LITTLE_ENDIAN);
    if (encoded.length < HEAD_BYTES || bytes.getLong() != MAGIC) {
      throw new TrainingException(
          encoded.length < HEAD_BYTES
              ? truncated(name, encoded.length, HEAD_BYTES)
              : String.format(Locale.ROOT, "%s is no checkpoint", name));
    }
    long whole = HEAD_BYTES + bytes.getLong();
    if (encoded.length < whole) {
      throw new TrainingException(truncated(name, encoded.length, whole));
    }
    int end = encoded.length - Long.BYTES;
    if (encoded.length > whole || bytes.getLong(end) != sum(encoded, end)) {
      throw new TrainingException(
          String.format(Locale.ROOT, "the checkpoint %s is damaged: its checksum is wrong", name));
    }
    byte[] lines = new byte[bytes.getInt()];
    bytes.get(lines);
    Map<String, String> options = new LinkedHashMap<>();
    for (String line : new String(lines, UTF_8).split("\n", -1)) {
      int tab = line.indexOf('\t');
      options.put(line.substring(0, tab), line.substring(tab + 1));
    }
    float[] losses = new float[bytes.getInt()];
    for (int i = 0; i < losses.length; i++) {
      losses[i] = bytes.getFloat();
    }
    return new Checkpoint(options, losses, Arrays.copyOfRange(encoded, bytes.position(), end));
  }

  private static String truncated(String name, long bytes, long whole) {
    return String.format(
        Locale.ROOT, "the checkpoint %s is truncated: it has %d of %d bytes", name, bytes, whole);
  }

  /** Says by what a run differs from this one's; null if it can go on from here. */
  @Nullable String difference(Map<String, String> wanted) {
    for (Map.Entry<String, String> option : wanted.entrySet()) {
      String here = options.get(option.getKey());
      if (!Objects.equals(here, option.getValue())) {
        return String.format(
            Locale.ROOT, "%s was %s, and is %s now", option.getKey(), here, option.getValue());
      }
    }
    return null;
  }
}
