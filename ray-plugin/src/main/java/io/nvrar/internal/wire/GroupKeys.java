package io.nvrar.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import javax.crypto.Mac;

/** A group's secret, and what is computed from it. Whoever knows the secret may join. */
public final class GroupKeys {
  public static final int SECRET_BYTES = 32;

  private static final int ID_BYTES = 16;

  private final byte[] secret;

  GroupKeys(byte[] secret) {
    if (secret.length != SECRET_BYTES) {
      throw new IllegalArgumentException(
          "secret has " + secret.length + " bytes, must have " + SECRET_BYTES);
    }
    this.secret = secret;
  }

  /** The keys of a new group. */
  public static GroupKeys random() {
    return new GroupKeys(Crypto.random(SECRET_BYTES));
  }

  /**
   * The keys of a group that is split from this one. Every member of this group can compute them,
   * so that no secret is sent; frames are authenticated but not encrypted. The unique id is random,
   * so no two children have the same secret.
   */
  public GroupKeys ofChild(String name, byte[] uniqueId) {
    return new GroupKeys(derive("split", name, uniqueId));
  }

  /** The secret of the group's links. */
  public byte[] ofLinks(GroupSpec spec) {
    return derive("links", spec.name(), spec.uniqueId());
  }

  /** What tells groups apart, and is no secret. */
  public byte[] id() {
    return Arrays.copyOf(mac("id", new byte[0], new byte[0]), ID_BYTES);
  }

  /** For {@link TicketCodec}, because a ticket contains the secret. */
  byte[] secret() {
    return secret.clone();
  }

  /** What two hellos are authenticated for, or a key is made of them for. */
  public enum Proof {
    SERVER("server"),
    CLIENT("client"),
    ADMITTED("admitted"),
    KEY_TO_SERVER("key to server"),
    KEY_TO_CLIENT("key to client");

    private final String word;

    Proof(String word) {
      this.word = word;
    }
  }

  /** Authenticates two messages. */
  public byte[] mac(Proof proof, byte[] first, byte[] second) {
    return mac(proof.word, first, second);
  }

  private byte[] mac(String word, byte[] first, byte[] second) {
    Mac mac = Crypto.hmac(secret);
    mac.update(("nvrar " + word + "\0").getBytes(StandardCharsets.US_ASCII));
    mac.update(first);
    mac.update(second);
    return mac.doFinal();
  }

  /** Derives a key for a named purpose, from which the secret cannot be computed. */
  private byte[] derive(String purpose, String name, byte[] nonce) {
    Mac mac = Crypto.hmac(secret);
    mac.update(("nvrar " + purpose + "\0").getBytes(StandardCharsets.UTF_8));
    mac.update((byte) nonce.length);
    mac.update(nonce);
    mac.update(name.getBytes(StandardCharsets.UTF_8));
    return mac.doFinal();
  }

  /** Nothing of the secret. */
  @Override
  public String toString() {
    return "GroupKeys[...]";
  }
}
