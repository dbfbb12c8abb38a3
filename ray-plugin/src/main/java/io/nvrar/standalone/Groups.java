package io.nvrar.standalone;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.internal.group.Joining;
import io.nvrar.internal.group.MemberGroup;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.ProcessIdentity;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Groups of plain JVM processes or threads. One process creates a ticket, and all members join with
 * it.
 *
 * <pre>{@code
 * // In rank 0's process:
 * GroupTicket ticket = Groups.createTicket("tp", 4, GroupConfig.defaults(), "10.0.0.1");
 * send(ticket.toBytes());
 *
 * // In every member's process:
 * try (CollectiveGroup tp = Groups.join(GroupTicket.of(received), rank)) {
 *   tp.allReduce(buffer);
 * }
 * }</pre>
 *
 * <p>A {@link GroupTicket} holds a secret and is for one group. Any thread may call any method.
 */
public final class Groups {

  /**
   * The largest number of members of a group: 64 nodes of {@link #MAX_NODE_SIZE}; on GPUs it is 64,
   * on up to 8 hosts.
   */
  public static final int MAX_WORLD_SIZE = GroupSpec.MAX_WORLD_SIZE;

  /** The largest number of members of a node. */
  public static final int MAX_NODE_SIZE = GroupSpec.MAX_NODE_SIZE;

  /**
   * The smallest nonzero {@code ringBytes} of a group of several nodes with up to {@link
   * #MAX_NODE_SIZE} members.
   */
  public static final int MIN_RING_BYTES_OF_NODES = Rendezvous.MIN_RING_BYTES_OF_NODES;

  /**
   * The open rendezvous of this process that rank 0 has not joined yet, by the id of the group's
   * keys. The map connects a ticket to the socket that waits for its members. An entry is removed
   * when rank 0 joins, when the ticket is discarded, or after the join timeout.
   */
  private static final Map<ByteBuffer, Rendezvous> PENDING = new ConcurrentHashMap<>();

  private static final Logger LOG = LoggerFactory.getLogger(Groups.class);

  private Groups() {}

  /**
   * Opens the rendezvous of a new group and returns the ticket to give to its members. Call it in
   * the process that will join as rank 0. The rendezvous closes by itself if no member has
   * connected within the join timeout.
   *
   * @param name the group's name, used in messages, 1 to 128 characters
   * @param worldSize the number of members, 1 to {@link #MAX_WORLD_SIZE}
   * @param config the configuration of all members
   * @param host an address of this machine that all members can reach, or a name that all members
   *     resolve to one; the rendezvous listens only on that address. A loopback address serves
   *     members on this machine only
   * @return the ticket
   * @throws IllegalArgumentException if an argument is out of range, {@code ringBytes} is too small
   *     for several nodes, or the host cannot be resolved or is a link-local IPv6 address
   * @throws BackendUnavailableException if the configured backend cannot run here
   * @throws CollectiveException if the port is in use or the address is not this machine's
   */
  public static GroupTicket createTicket(
      String name, int worldSize, GroupConfig config, String host) {
    GroupKeys keys = GroupKeys.random();
    Rendezvous rendezvous = Rendezvous.open(name, worldSize, config, host, uniqueId -> keys);
    GroupSpec spec = rendezvous.spec();
    warnOfLoopback(spec);
    ByteBuffer id = ByteBuffer.wrap(keys.id());
    PENDING.put(id, rendezvous);
    rendezvous.start(() -> PENDING.remove(id, rendezvous));
    return new GroupTicket(spec, keys);
  }

  /** A rendezvous on loopback serves a group on one host; a group that is to have more fails. */
  private static void warnOfLoopback(GroupSpec spec) {
    InetAddress address;
    try {
      address = spec.address().getAddress();
    } catch (UnknownHostException e) {
      return; // a moment ago it was known; who joins will say
    }
    GroupConfig config = spec.config();
    if (!address.isLoopbackAddress()) {
      return;
    }
    boolean isNumber = spec.hasNumericHost();
    String sign =
        !config.links().networkInterface().isEmpty()
            ? "links.networkInterface is set, which only members on several hosts use"
            : spec.worldSize() > MAX_NODE_SIZE && config.gpusPerNode() == 0
                ? String.format(Locale.ROOT, "its %d members need several hosts", spec.worldSize())
                : isNumber || spec.host().equals("localhost")
                    ? null
                    : "a name of this host is often resolved to loopback by /etc/hosts";
    if (sign != null) {
      LOG.warn(
          "The rendezvous of {} is on {}{}, a loopback address, which members on other hosts cannot reach; {}",
          spec.label(),
          spec.place(),
          isNumber ? "" : " (" + address.getHostAddress() + ")",
          sign);
    }
  }

  /**
   * Closes the rendezvous of a ticket that this process created and rank 0 has not used. Members
   * waiting there fail. Does nothing for any other ticket.
   */
  public static void discardTicket(GroupTicket ticket) {
    Rendezvous rendezvous = PENDING.remove(ByteBuffer.wrap(required(ticket).keys().id()));
    if (rendezvous != null) {
      GroupSpec spec = rendezvous.spec();
      rendezvous.discard("the ticket of " + spec.label() + " was discarded");
      Joining.endHub(rendezvous, spec);
    }
  }

  /** {@link #join(GroupTicket, int, int)} with device ordinal 0. */
  public static CollectiveGroup join(GroupTicket ticket, int rank) {
    return join(ticket, rank, 0);
  }

  /**
   * Joins a group as one member. Returns when all members have joined; if one cannot join, the call
   * throws on all members, with the reason. An interrupt of the thread is one, and the flag is
   * kept.
   *
   * @param ticket from {@link #createTicket}
   * @param rank this member's rank, different for every member; rank 0 must join in the process
   *     that created the ticket
   * @param deviceOrdinal the device of this process to compute on; the CPU backend ignores it
   * @throws IllegalArgumentException if the group has no such rank
   * @throws io.nvrar.CollectiveTimeoutException if members are missing when the join timeout ends
   * @throws GroupMismatchException if members differ in the library build, the world size or the
   *     configuration, or if two members have the same rank
   * @throws BackendUnavailableException if the group's backend cannot run in this process
   * @throws CollectiveException if this or another member cannot join
   */
  public static CollectiveGroup join(GroupTicket ticket, int rank, int deviceOrdinal) {
    return joinAsMember(ticket, rank, deviceOrdinal);
  }

  private static MemberGroup joinAsMember(GroupTicket ticket, int rank, int deviceOrdinal) {
    GroupSpec spec = required(ticket).spec();
    GroupKeys keys = ticket.keys();
    if (rank < 0 || rank >= spec.worldSize()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "rank is %d, the ranks of %s are 0 to %d",
              rank,
              spec.label(),
              spec.worldSize() - 1));
    }
    Rendezvous hub = rank == 0 ? hub(spec, keys) : null;
    return Joining.join(spec, keys, rank, deviceOrdinal, hub, null);
  }

  /**
   * {@link #join(GroupTicket, int, int)} for a group that its {@link #observe observer} closes.
   * Once such a group has failed, and its observer has aborted it or was lost, or rank 0 was lost,
   * this member and the members of groups split from it free their resources by themselves. Calls
   * still throw the failure, and {@link CollectiveGroup#close} works as usual. If rank 0 joins in
   * this way, an observer that has not connected within twice the join timeout plus 15 s after all
   * members have joined counts as lost.
   */
  public static CollectiveGroup joinObserved(GroupTicket ticket, int rank, int deviceOrdinal) {
    MemberGroup group = joinAsMember(ticket, rank, deviceOrdinal);
    group.setDriven();
    return group;
  }

  private static Rendezvous hub(GroupSpec spec, GroupKeys keys) {
    Rendezvous hub = PENDING.remove(ByteBuffer.wrap(keys.id()));
    if (hub == null) {
      throw new GroupMismatchException(
          String.format(
              Locale.ROOT,
              "rank 0 of %s joins once and in the process that made the ticket, but %s has no unused rendezvous for it (taken, expired, discarded, or made elsewhere)",
              spec.label(),
              ProcessIdentity.current()));
    }
    return hub;
  }

  /**
   * Observes a group from a process that is not a member. May be called before, while or after the
   * members join; if rank 0 joined with {@link #joinObserved}, within the time limit described
   * there. Tries to reach the rendezvous for at most the join timeout.
   *
   * @throws CollectiveException if the rendezvous cannot be reached or is closed
   */
  public static GroupObserver observe(GroupTicket ticket) {
    return observe(ticket, required(ticket).spec().config().joinTimeout());
  }

  /**
   * {@link #observe(GroupTicket)} with a time limit other than the join timeout.
   *
   * @param limit how long to try to reach the rendezvous
   * @throws CollectiveException if the rendezvous cannot be reached or is closed
   */
  public static GroupObserver observe(GroupTicket ticket, Duration limit) {
    return DriverObserver.observe(required(ticket).spec(), ticket.keys(), limit);
  }

  private static GroupTicket required(@Nullable GroupTicket ticket) {
    if (ticket == null) {
      throw new IllegalArgumentException("the ticket is null");
    }
    return ticket;
  }
}
