package io.nvrar.internal.wire;

import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;

/**
 * A ticket in its parts, with the secret: for tests that forge a ticket, or are a member by hand.
 */
@SuppressWarnings("ArrayRecordComponent") // never changed
public record OpenTicket(
    String name,
    int worldSize,
    byte[] uniqueId,
    String host,
    int port,
    byte[] secret,
    GroupConfig config) {

  public static OpenTicket of(GroupTicket ticket) {
    return of(ticket.toBytes());
  }

  public static OpenTicket of(byte[] bytes) {
    return TicketCodec.decode(bytes, OpenTicket::of);
  }

  public static OpenTicket of(GroupSpec spec, GroupKeys keys) {
    return new OpenTicket(
        spec.name(),
        spec.worldSize(),
        spec.uniqueId(),
        spec.host(),
        spec.port(),
        keys.secret(),
        spec.config());
  }

  public OpenTicket withSecret(byte[] other) {
    return new OpenTicket(name, worldSize, uniqueId, host, port, other, config);
  }

  public GroupSpec spec() {
    return new GroupSpec(name, worldSize, uniqueId, host, port, config);
  }

  public GroupKeys keys() {
    return new GroupKeys(secret.clone());
  }

  public byte[] toBytes() {
    return TicketCodec.encode(spec(), keys());
  }

  public GroupTicket toGroupTicket() {
    return GroupTicket.of(toBytes());
  }
}
