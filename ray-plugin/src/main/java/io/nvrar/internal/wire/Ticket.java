package io.nvrar.internal.wire;

import io.nvrar.GroupConfig;

/**
 * A ticket, as it is written: everything that a member must know to join a group. {@link #spec} and
 * {@link #keys} take it apart.
 *
 * @param secret {@link GroupKeys#SECRET_BYTES} random bytes
 */
@SuppressWarnings("ArrayRecordComponent") // never changed
public record Ticket(
    String name,
    int worldSize,
    byte[] uniqueId,
    String host,
    int port,
    byte[] secret,
    GroupConfig config) {

  public Ticket {
    GroupSpec unused = new GroupSpec(name, worldSize, uniqueId, host, port, config);
    GroupKeys unusedToo = new GroupKeys(secret);
  }

  /** What the group is. */
  public GroupSpec spec() {
    return new GroupSpec(name, worldSize, uniqueId, host, port, config);
  }

  /** Its secret. */
  public GroupKeys keys() {
    return new GroupKeys(secret.clone());
  }

  /** All fields except the secret. */
  @Override
  public String toString() {
    return "Ticket[" + spec() + "]";
  }
}
