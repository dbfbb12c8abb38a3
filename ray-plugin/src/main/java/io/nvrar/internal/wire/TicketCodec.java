package io.nvrar.internal.wire;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * Encodes tickets as bytes: {@code magic(4) version(1) length(4) body(length) digest(16)}, with the
 * body {@code secret(32) spec}. The version is checked before anything that depends on it. The
 * digest detects damage, not forgery: whoever holds a ticket holds the secret.
 */
public final class TicketCodec {
  /** The version of tickets, handshake and messages. */
  public static final byte PROTOCOL_VERSION = 4;

  private static final int MAGIC = 0x4e565254; // "NVRT"
  private static final int HEADER_BYTES = 9;
  private static final int DIGEST_BYTES = 16;

  private TicketCodec() {}

  /** The bytes of the ticket of a group. */
  public static byte[] encode(GroupSpec spec, GroupKeys keys) {
    byte[] secret = keys.secret();
    byte[] group = new Wire().write(spec);
    int length = secret.length + group.length;
    ByteBuffer frame = ByteBuffer.allocate(HEADER_BYTES + length + DIGEST_BYTES);
    frame.putInt(MAGIC).put(PROTOCOL_VERSION).putInt(length).put(secret).put(group);
    frame.put(digest(frame.array(), frame.position()));
    return frame.array();
  }

  /**
   * Reads a ticket.
   *
   * @param ticket what to make of the group and its secret, which nothing here keeps
   * @throws IllegalArgumentException if these bytes are not a ticket; the message is one sentence
   *     that says why
   */
  public static <T> T decode(byte @Nullable [] bytes, BiFunction<GroupSpec, GroupKeys, T> ticket) {
    if (bytes == null) {
      throw new IllegalArgumentException("the ticket is null");
    }
    if (bytes.length < HEADER_BYTES) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "not a ticket: %d bytes, a ticket has more than %d",
              bytes.length,
              HEADER_BYTES + DIGEST_BYTES));
    }
    ByteBuffer frame = ByteBuffer.wrap(bytes);
    if (frame.getInt() != MAGIC) {
      throw new IllegalArgumentException("not a ticket: it does not begin with NVRT");
    }
    int version = Byte.toUnsignedInt(frame.get());
    if (version != PROTOCOL_VERSION) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the ticket has protocol version %d, this library speaks version %d",
              version,
              PROTOCOL_VERSION));
    }
    int length = frame.getInt();
    if (length < 0 || length > Wire.MAX_BYTES || frame.remaining() != length + DIGEST_BYTES) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the ticket is damaged: it announces %d bytes and has %d",
              length,
              frame.remaining() - DIGEST_BYTES));
    }
    byte[] digest = new byte[DIGEST_BYTES];
    frame.get(HEADER_BYTES + length, digest);
    if (!MessageDigest.isEqual(digest, digest(bytes, HEADER_BYTES + length))) {
      throw new IllegalArgumentException("the ticket is damaged: its digest differs");
    }
    int secretBytes = Math.min(length, GroupKeys.SECRET_BYTES);
    int group = HEADER_BYTES + secretBytes;
    GroupKeys keys;
    GroupSpec spec;
    try {
      keys = new GroupKeys(Arrays.copyOfRange(bytes, HEADER_BYTES, group));
      spec = new Wire().read(bytes, group, length - secretBytes, GroupSpec.class);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("the ticket cannot be read: " + e.getMessage(), e);
    }
    return ticket.apply(spec, keys);
  }

  private static byte[] digest(byte[] bytes, int length) {
    MessageDigest sha256 = Crypto.sha256();
    sha256.update(bytes, 0, length);
    return Arrays.copyOf(sha256.digest(), DIGEST_BYTES);
  }
}
