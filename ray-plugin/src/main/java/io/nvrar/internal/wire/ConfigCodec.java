package io.nvrar.internal.wire;

import io.nvrar.GroupConfig;

/**
 * A {@link GroupConfig} as bytes, for a driver that has the group's ticket made in another process.
 */
public final class ConfigCodec {

  private ConfigCodec() {}

  /** The bytes of a configuration, for this library's version. */
  public static byte[] encode(GroupConfig config) {
    return new Wire().write(config);
  }

  /**
   * The configuration in what {@link #encode} returned.
   *
   * @throws IllegalArgumentException if these bytes are no configuration
   */
  public static GroupConfig decode(byte[] bytes) {
    return new Wire().read(bytes, 0, bytes.length, GroupConfig.class);
  }
}
