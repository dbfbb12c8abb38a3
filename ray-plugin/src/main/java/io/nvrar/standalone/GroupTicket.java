package io.nvrar.standalone;

import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.TicketCodec;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Locale;

/**
 * The ticket of one group, with which its members join and observers observe. {@link
 * Groups#createTicket} makes it. Immutable, so any thread may use it.
 *
 * <p><b>A ticket holds a secret.</b> Whoever has the ticket can join, observe or abort the group
 * while the group lives. {@link #toString} does not name the secret; {@link #toBytes} contains it.
 *
 * <p><b>Carrying it.</b> Send {@link #toBytes} to the members' processes through a channel that
 * only they can read: a pipe, a private file, an argument of a remote call. Every user of a host
 * can read command lines. {@link #of} makes the ticket again in the other process. Both processes
 * need the same release of this library.
 *
 * <p><b>One ticket is for one group.</b> Each rank joins with it once. The next group needs a new
 * ticket, even if it has the same name and members.
 */
public final class GroupTicket {
  private final GroupSpec spec;
  private final GroupKeys keys;

  GroupTicket(GroupSpec spec, GroupKeys keys) {
    this.spec = spec;
    this.keys = keys;
  }

  /**
   * The ticket in these bytes, which are copied.
   *
   * @param bytes what {@link #toBytes} returned
   * @throws IllegalArgumentException if the bytes are null or no ticket, are damaged, or are a
   *     ticket of another release; the message is one sentence that says which
   */
  public static GroupTicket of(byte[] bytes) {
    return TicketCodec.decode(bytes, GroupTicket::new);
  }

  /** The bytes from which {@link #of} makes an equal ticket: a new array, at most 5 KiB, secret. */
  public byte[] toBytes() {
    return TicketCodec.encode(spec, keys);
  }

  GroupSpec spec() {
    return spec;
  }

  GroupKeys keys() {
    return keys;
  }

  /** Whether the other object is a ticket of the same group, with the same secret. */
  @Override
  public boolean equals(Object other) {
    return this == other
        || (other instanceof GroupTicket that && MessageDigest.isEqual(toBytes(), that.toBytes()));
  }

  /** Says nothing of the secret. */
  @Override
  public int hashCode() {
    return Arrays.hashCode(keys.id());
  }

  /** The group's name, its size and the address of its rendezvous, without the secret. */
  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "GroupTicket[name=%s, worldSize=%d, address=%s]",
        spec.name(),
        spec.worldSize(),
        spec.place());
  }
}
