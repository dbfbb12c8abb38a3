package io.nvrar.bootstrap;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.Device;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.internal.NativeCommunicator;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One member's way into a group: reach the rendezvous, say who it is, prepare, exchange
 * descriptors, connect, wait for all. Whatever fails here is told to the others and leaves nothing
 * behind.
 */
final class Joining {
  /** The rendezvous keeps the deadline and knows who is missing; this is for when it is stuck. */
  private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(2);

  private static final long HUB_END_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Ticket ticket;
  private final int rank;
  private final int deviceOrdinal;
  private final @Nullable Rendezvous hub;
  private final ProcessIdentity self = ProcessIdentity.current();
  private boolean spans;

  /**
   * @param hub the group's rendezvous if this is rank 0; closed with the group
   */
  Joining(Ticket ticket, int rank, int deviceOrdinal, @Nullable Rendezvous hub) {
    this.ticket = ticket;
    this.rank = rank;
    this.deviceOrdinal = deviceOrdinal;
    this.hub = hub;
  }

  MemberGroup join() {
    long start = System.nanoTime();
    GroupConfig config = ticket.config();
    long deadline = start + config.joinTimeout().toNanos() + GRACE_NANOS;
    Member member = null;
    try {
      FramedChannel framed = new Dialer(ticket, Handshake.Role.MEMBER, rank).dial(deadline);
      member = new Member(ticket, rank, new ControlChannel(framed, ticket));
      member.start();
      return join(member, deadline);
    } catch (RuntimeException | Error e) {
      if (member != null) {
        tellOthers(member, e);
        member.leave();
        member.awaitFreed(0);
      }
      endHub(hub, ticket);
      throw e;
    }
  }

  private MemberGroup join(Member member, long deadline) {
    GroupConfig config = ticket.config();
    Backend backend = Devices.resolve(config.backend());
    member.send(
        new Message.Hello(
            self,
            libraryVersion(),
            NativeCommunicator.buildId(),
            ticket.worldSize(),
            backend.name(),
            config.toString()));
    Device device = Devices.open(backend, deviceOrdinal);
    NativeCommunicator communicator =
        NativeCommunicator.prepare(
            backend, deviceOrdinal, rank, ticket.worldSize(), ticket.uniqueId(), config);
    member.own(communicator);
    member.send(new Message.Descriptor(communicator.descriptor()));
    Message.MemberInfo[] members = member.awaitMembers(deadline).inRankOrder();
    connect(communicator, members);
    member.send(new Message.Connected());
    member.awaitReady(deadline);
    return new MemberGroup(ticket, rank, backend, device, communicator, member, hub);
  }

  private void connect(NativeCommunicator communicator, Message.MemberInfo[] members) {
    try {
      communicator.connect(
          Arrays.stream(members).map(Message.MemberInfo::descriptor).toArray(byte[][]::new));
    } catch (CollectiveException e) {
      // Only now, because names prove nothing: containers of one host may differ in theirs and
      // still share memory.
      String span = span(members);
      if (span != null) {
        spans = true;
        throw new CollectiveException(span + " (" + e.getMessage() + ")", e);
      }
      throw e;
    }
  }

  /** "group 'tp' spans hosts A and B: ...", or null if all members are on one host. */
  private @Nullable String span(Message.MemberInfo[] members) {
    Map<String, int[]> ranksByHost = new LinkedHashMap<>();
    for (Message.MemberInfo member : members) {
      ProcessIdentity process = member.process();
      boolean nameIsAmbiguous =
          Arrays.stream(members)
              .anyMatch(
                  other ->
                      other.process().host().equals(process.host())
                          && !other.process().sameHost(process));
      ranksByHost.computeIfAbsent(
          process.host() + (nameIsAmbiguous ? " (boot id " + process.bootId() + ")" : ""),
          host ->
              IntStream.range(0, members.length)
                  .filter(r -> members[r].process().sameHost(process))
                  .toArray());
    }
    if (ranksByHost.size() == 1) {
      return null;
    }
    return "%s spans hosts %s: %s; this version needs all members on one host"
        .formatted(
            ticket.label(),
            String.join(" and ", ranksByHost.keySet()),
            ranksByHost.entrySet().stream()
                .map(entry -> Phrases.ranks(entry.getValue()) + " on " + entry.getKey())
                .collect(Collectors.joining(", ")));
  }

  private void tellOthers(Member member, Throwable e) {
    String sentence = e instanceof Error ? e.toString() : String.valueOf(e.getMessage());
    if (spans) {
      // Says it all, and the same on every member.
      member.fail(Failure.of(Failure.Kind.ABORTED, sentence), true);
      return;
    }
    String told =
        "rank %d (%s) could not join %s: %s".formatted(rank, self, ticket.label(), sentence);
    // If the others told it, it is recorded already and not told again.
    member.fail(
        e instanceof CollectiveException known
            ? Failure.like(known, told).forOthers(told)
            : Failure.of(Failure.Kind.ABORTED, told),
        true);
  }

  /** Gives the rendezvous time for its last words, then ends it. */
  static void endHub(@Nullable Rendezvous hub, Ticket ticket) {
    if (hub == null) {
      return;
    }
    boolean interrupted = false;
    try {
      if (!hub.awaitEnd(HUB_END_NANOS)) {
        hub.discard("rank 0 has left " + ticket.label());
        hub.awaitEnd(HUB_END_NANOS);
      }
    } catch (InterruptedException e) {
      interrupted = true;
      hub.discard("rank 0 has left " + ticket.label());
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static String libraryVersion() {
    String version = Joining.class.getPackage().getImplementationVersion();
    return version == null ? "unpackaged" : version;
  }
}
