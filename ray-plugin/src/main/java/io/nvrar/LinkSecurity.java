package io.nvrar;

/**
 * How the links between members on different hosts are protected. In both ways the ends of a link
 * prove to each other that they are members of the group, before either believes a byte.
 */
public enum LinkSecurity {
  /** What the members send each other is neither secret nor protected against changes. */
  PLAIN(0),

  /** It is both, by AES-256-GCM. Needs OpenSSL's libcrypto on every host. */
  ENCRYPTED(1);

  private final int code;

  LinkSecurity(int code) {
    this.code = code;
  }

  /** The code in the native library. */
  public int code() {
    return code;
  }
}
