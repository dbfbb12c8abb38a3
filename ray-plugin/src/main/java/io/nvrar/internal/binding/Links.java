package io.nvrar.internal.binding;

import java.util.Locale;

/**
 * How a member is linked to members whose memory it cannot map.
 *
 * @param address the numeric address of this host by which other hosts reach the member; "" if it
 *     has none, which a group on one host does not need
 * @param betweenNodes whether the nodes that {@code gpusPerNode} makes of one host are linked like
 *     hosts, for tests and measurements
 * @param secret {@link #SECRET_BYTES} that all members know and nobody else
 */
@SuppressWarnings("ArrayRecordComponent") // never changed
public record Links(String address, boolean betweenNodes, byte[] secret) {
  /** {@code NVRAR_LINK_SECRET_BYTES}. */
  public static final int SECRET_BYTES = 32;

  /** For a group on one host. */
  public static final Links NONE = new Links("", false, new byte[SECRET_BYTES]);

  public Links {
    if (secret.length != SECRET_BYTES) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "a secret has %d bytes, not %d", SECRET_BYTES, secret.length));
    }
  }
}
