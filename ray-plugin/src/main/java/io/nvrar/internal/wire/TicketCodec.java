package io.nvrar.internal.wire;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Encodes tickets as bytes: {@code magic(4) version(1) length(4) body(length) digest(16)}. The
 * version is checked before anything that depends on it. The digest detects damage, not forgery:
 * whoever holds a ticket holds the secret.
 */
public final class TicketCodec {
  /** The version of tickets, handshake and messages. */
  public static final byte PROTOCOL_VERSION = 3;

  private static final int MAGIC = 0x4e565254; // "NVRT"
  private static final int HEADER_BYTES = 9;
  private static final int DIGEST_BYTES = 16;

  private TicketCodec() {}

  public static byte[] encode(Ticket ticket) {
    byte[] body = new Wire().write(ticket);
    ByteBuffer frame = ByteBuffer.allocate(HEADER_BYTES + body.length + DIGEST_BYTES);
    frame.putInt(MAGIC).put(PROTOCOL_VERSION).putInt(body.length).put(body);
    frame.put(digest(frame.array(), frame.position()));
    return frame.array();
  }

  /**
   * The ticket in {@code bytes}.
   *
   * @throws IllegalArgumentException if these bytes are not a ticket; the message is one sentence
   *     that says why
   */
  public static Ticket decode(byte @Nullable [] bytes) {
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
    try {
      return new Wire().read(bytes, HEADER_BYTES, length, Ticket.class);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("the ticket cannot be read: " + e.getMessage(), e);
    }
  }

  private static byte[] digest(byte[] bytes, int length) {
    MessageDigest sha256 = Crypto.sha256();
    sha256.update(bytes, 0, length);
    return java.util.Arrays.copyOf(sha256.digest(), DIGEST_BYTES);
  }
}
