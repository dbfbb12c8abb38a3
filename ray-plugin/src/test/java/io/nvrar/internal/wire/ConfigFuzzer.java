package io.nvrar.internal.wire;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.GroupConfig;

/** Configurations as bytes. */
public final class ConfigFuzzer {
  private static final long MAX_BYTES = 256 * 1024;

  /** Shared, because making one takes longer than reading a configuration. */
  private static final Wire WIRE = new Wire();

  private ConfigFuzzer() {}

  /** The bytes of a configuration. */
  public static void fuzzerTestOneInput(byte[] data) {
    withinMemory(MAX_BYTES + 4L * data.length, () -> read(data));
  }

  private static void read(byte[] data) {
    GroupConfig config;
    try {
      config = WIRE.read(data, 0, data.length, GroupConfig.class);
    } catch (IllegalArgumentException e) {
      sentence(e);
      return;
    }
    byte[] bytes = WIRE.write(config);
    GroupConfig again = WIRE.read(bytes, 0, bytes.length, GroupConfig.class);
    holds(again.equals(config), "another configuration");
  }
}
