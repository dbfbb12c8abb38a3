package io.nvrar.internal.wire;

import io.nvrar.GroupConfig;

/**
 * Encodes a {@link GroupConfig} as bytes, for a driver that lets another process create the group's
 * ticket.
 */
public final class ConfigCodec {

  private ConfigCodec() {}

  /** The bytes of a configuration, for this library's version. */
  public static byte[] encode(GroupConfig config) {
    return new Wire().write(config);
  }

  /**
   * Decodes the result of {@link #encode}.
   *
   * @throws IllegalArgumentException if these bytes are not a configuration
   */
  public static GroupConfig decode(byte[] bytes) {
    return new Wire().read(bytes, 0, bytes.length, GroupConfig.class);
  }
}
