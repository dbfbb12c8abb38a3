package io.nvrar.internal.channel;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.TicketCodec;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The handshake by which both ends of a control channel prove that they know the ticket's secret.
 *
 * <pre>
 * client: "NVRC" version(1) role(1) rank(2) ticket id(16) nonce(32)
 * server: "NVRS" version(1) zero(3) nonce(32) HMAC(secret, "server", client's message, server's up to here)
 * client: HMAC(secret, "client", both messages)
 * server: HMAC(secret, "admitted", both messages)
 * </pre>
 *
 * Role and rank are in the first message and so under every MAC; both nonces are fresh, so a
 * recorded conversation cannot be replayed; the words keep one side's MAC from being replayed as
 * the other's. All sizes are fixed: no length field is trusted before the last MAC. The server
 * answers first, so that a member with a wrong ticket learns it at once, and last, so that a member
 * whose connection was closed while its proof was in flight knows to try again.
 */
public final class Handshake {
  public static final int CLIENT_HELLO_BYTES = 56;
  public static final int SERVER_HELLO_BYTES = 72;
  public static final int CLIENT_PROOF_BYTES = Crypto.MAC_BYTES;
  public static final int ADMISSION_BYTES = Crypto.MAC_BYTES;

  private static final int CLIENT_MAGIC = 0x4e565243; // "NVRC"
  private static final int SERVER_MAGIC = 0x4e565253; // "NVRS"
  private static final int NONCE_BYTES = 32;
  private static final int SERVER_SIGNED_BYTES = SERVER_HELLO_BYTES - Crypto.MAC_BYTES;

  /** The role of the connecting process. */
  public enum Role {
    MEMBER(0),
    OBSERVER(1);

    private final byte code;

    Role(int code) {
      this.code = (byte) code;
    }

    private static @Nullable Role of(byte code) {
      return code == MEMBER.code ? MEMBER : code == OBSERVER.code ? OBSERVER : null;
    }
  }

  /** The identity that a client claims; verified once its proof was checked. */
  public record Claim(Role role, int rank) {}

  /** The keys of one connection, one per direction. */
  @SuppressWarnings("ArrayRecordComponent") // handed to one FramedChannel
  public record Keys(byte[] toServer, byte[] toClient) {}

  private final GroupKeys keys;

  public Handshake(GroupKeys keys) {
    this.keys = keys;
  }

  public byte[] clientHello(Role role, int rank) {
    return ByteBuffer.allocate(CLIENT_HELLO_BYTES)
        .putInt(CLIENT_MAGIC)
        .put(TicketCodec.PROTOCOL_VERSION)
        .put(role.code)
        .putShort((short) rank)
        .put(keys.id())
        .put(Crypto.random(NONCE_BYTES))
        .array();
  }

  /** Whether these bytes are a client's first message of this protocol. */
  boolean isClientHello(byte[] clientHello) {
    ByteBuffer hello = ByteBuffer.wrap(clientHello);
    return hello.getInt() == CLIENT_MAGIC && hello.get() == TicketCodec.PROTOCOL_VERSION;
  }

  /** The claim of {@code clientHello}, or null if it is for another ticket. */
  @Nullable Claim claimOf(byte[] clientHello) {
    ByteBuffer hello = ByteBuffer.wrap(clientHello).position(5);
    Role role = Role.of(hello.get());
    int rank = hello.getShort();
    byte[] own = keys.id();
    byte[] id = new byte[own.length];
    hello.get(id);
    if (role == null || !MessageDigest.isEqual(id, own)) {
      return null;
    }
    return new Claim(role, rank);
  }

  byte[] serverHello(byte[] clientHello) {
    ByteBuffer hello = ByteBuffer.allocate(SERVER_HELLO_BYTES);
    hello.putInt(SERVER_MAGIC).put(TicketCodec.PROTOCOL_VERSION).position(8);
    hello.put(Crypto.random(NONCE_BYTES));
    hello.put(serverMac(clientHello, hello.array()));
    return hello.array();
  }

  boolean isServer(byte[] clientHello, byte[] serverHello) {
    return MessageDigest.isEqual(
        serverMac(clientHello, serverHello),
        Arrays.copyOfRange(serverHello, SERVER_SIGNED_BYTES, SERVER_HELLO_BYTES));
  }

  public byte[] clientProof(byte[] clientHello, byte[] serverHello) {
    return keys.mac(GroupKeys.Proof.CLIENT, clientHello, serverHello);
  }

  boolean isClient(byte[] clientHello, byte[] serverHello, byte[] proof) {
    return MessageDigest.isEqual(clientProof(clientHello, serverHello), proof);
  }

  byte[] admission(byte[] clientHello, byte[] serverHello) {
    return keys.mac(GroupKeys.Proof.ADMITTED, clientHello, serverHello);
  }

  public boolean isAdmission(byte[] clientHello, byte[] serverHello, byte[] answer) {
    return MessageDigest.isEqual(admission(clientHello, serverHello), answer);
  }

  public Keys keys(byte[] clientHello, byte[] serverHello) {
    return new Keys(
        keys.mac(GroupKeys.Proof.KEY_TO_SERVER, clientHello, serverHello),
        keys.mac(GroupKeys.Proof.KEY_TO_CLIENT, clientHello, serverHello));
  }

  private byte[] serverMac(byte[] clientHello, byte[] serverHello) {
    return keys.mac(
        GroupKeys.Proof.SERVER, clientHello, Arrays.copyOf(serverHello, SERVER_SIGNED_BYTES));
  }
}
