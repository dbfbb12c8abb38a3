package io.nvrar.internal.wire;

import java.nio.charset.StandardCharsets;
import java.security.InvalidKeyException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Cryptographic primitives that every JDK must have, without their checked exceptions. */
public final class Crypto {
  static final int MAC_BYTES = 32;

  private Crypto() {}

  public static byte[] random(int bytes) {
    byte[] random = new byte[bytes];
    new SecureRandom().nextBytes(random);
    return random;
  }

  public static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this Java has no SHA-256", e);
    }
  }

  static Mac hmac(byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac;
    } catch (NoSuchAlgorithmException | InvalidKeyException e) {
      throw new IllegalStateException("this Java has no HmacSHA256", e);
    }
  }

  /** Derives a key for a named purpose. {@code secret} cannot be computed from it. */
  public static byte[] derive(byte[] secret, String purpose, String name, byte[] nonce) {
    Mac mac = hmac(secret);
    mac.update(("nvrar " + purpose + "\0").getBytes(StandardCharsets.UTF_8));
    mac.update((byte) nonce.length);
    mac.update(nonce);
    mac.update(name.getBytes(StandardCharsets.UTF_8));
    return mac.doFinal();
  }
}
