package io.nvrar.internal.wire;

import io.nvrar.GroupConfig;
import io.nvrar.standalone.Groups;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.Objects;

/**
 * What a group is: what its members agree on. The secret is in {@link GroupKeys}.
 *
 * @param name the group's name, 1 to {@link #MAX_NAME_CHARS} characters
 * @param worldSize the number of members, 1 to {@link #MAX_WORLD_SIZE}
 * @param uniqueId the native unique id; not for messages and files
 * @param host the address of the rendezvous, as given to {@link Groups#createTicket}
 * @param port its TCP port
 * @param config the configuration of all members
 */
@SuppressWarnings("ArrayRecordComponent") // never changed
public record GroupSpec(
    String name, int worldSize, byte[] uniqueId, String host, int port, GroupConfig config) {
  /**
   * The largest number of members of a node ({@code NVRAR_MAX_RANKS_PER_NODE} of the native
   * library).
   */
  public static final int MAX_NODE_SIZE = 8;

  /** The largest number of nodes ({@code NVRAR_MAX_NODES} of the native library). */
  public static final int MAX_NODES = 64;

  /** The largest number of members of a group. */
  public static final int MAX_WORLD_SIZE = MAX_NODES * MAX_NODE_SIZE;

  /** The largest number of members of a group on GPUs, which has at most 8 nodes. */
  public static final int MAX_GPU_WORLD_SIZE = 8 * MAX_NODE_SIZE;

  public static final int MAX_NAME_CHARS = 128;

  public GroupSpec {
    checkName(name);
    checkWorldSize(worldSize);
    Objects.requireNonNull(uniqueId, "unique id");
    Objects.requireNonNull(host, "host");
    Objects.requireNonNull(config, "config");
    if (port < 1 || port > 65535) {
      throw new IllegalArgumentException("port is " + port + ", must be 1 to 65535");
    }
  }

  public static void checkName(String name) {
    if (name.isEmpty() || name.length() > MAX_NAME_CHARS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the group's name has %d characters, must have 1 to %d",
              name.length(),
              MAX_NAME_CHARS));
    }
  }

  public static void checkWorldSize(int worldSize) {
    if (worldSize < 1 || worldSize > MAX_WORLD_SIZE) {
      throw new IllegalArgumentException(
          "world size is " + worldSize + ", must be 1 to " + MAX_WORLD_SIZE);
    }
  }

  /** The address of the rendezvous. */
  public InetSocketAddress address() throws UnknownHostException {
    return new InetSocketAddress(InetAddress.getByName(host), port);
  }

  /** The rendezvous, for messages: {@code 10.0.0.2:4711}, {@code [fd00::2]:4711}. */
  public String place() {
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
  }

  /** Whether the host is an address and no name, which could lead elsewhere on another host. */
  public boolean hasNumericHost() {
    return host.contains(":") || host.matches("[0-9.]+");
  }

  /** {@code group 'tp'}, for messages. */
  public String label() {
    return label(name);
  }

  /** How messages refer to a group of that name. */
  public static String label(String name) {
    return "group '" + name + "'";
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "GroupSpec[name=%s, worldSize=%d, address=%s, %s]",
        name,
        worldSize,
        place(),
        config);
  }
}
