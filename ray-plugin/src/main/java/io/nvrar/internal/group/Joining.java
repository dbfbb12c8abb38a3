package io.nvrar.internal.group;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.Device;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.internal.LibraryVersion;
import io.nvrar.internal.binding.Links;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.internal.channel.Sockets;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Joins one member to a group: connect to the rendezvous, send the greeting, prepare, exchange
 * descriptors, connect, wait for all members. A failure is reported to the others, and frees
 * everything.
 */
public final class Joining {
  /**
   * The rendezvous enforces the deadline and knows who is missing; this additional time is for the
   * case that it hangs.
   */
  private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** How soon the death of a member is reported, unless the machine is overloaded. */
  private static final long LOSS_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  /** How long to wait for the hub's end. It needs little time, but the machine may be busy. */
  private static final long HUB_END_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** How long the close of rank 0 waits for the other members, which leave at the same time. */
  private static final long OTHERS_END_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GroupSpec spec;
  private final int rank;
  private final int deviceOrdinal;
  private final @Nullable Rendezvous hub;
  private final @Nullable Parent parent;
  private final ProcessIdentity self = ProcessIdentity.current();

  /** Whether the failure of the join is one sentence for all members, the same on each. */
  private boolean isForAll;

  /**
   * The group that the new one is split from.
   *
   * @param children the children of this process's member there
   * @param ranks the new group's members by their rank there, in the order of their new ranks
   */
  @SuppressWarnings("ArrayRecordComponent") // never changed
  record Parent(Children children, int[] ranks) {}

  /**
   * Joins.
   *
   * @param hub the group's rendezvous if this is rank 0; closed with the group
   * @param parent null for a group that is not split from another
   */
  public static MemberGroup join(
      GroupSpec spec,
      GroupKeys keys,
      int rank,
      int deviceOrdinal,
      @Nullable Rendezvous hub,
      @Nullable Parent parent) {
    return new Joining(spec, rank, deviceOrdinal, hub, parent).join(keys);
  }

  private Joining(
      GroupSpec spec,
      int rank,
      int deviceOrdinal,
      @Nullable Rendezvous hub,
      @Nullable Parent parent) {
    this.spec = spec;
    this.rank = rank;
    this.deviceOrdinal = deviceOrdinal;
    this.hub = hub;
    this.parent = parent;
  }

  private MemberGroup join(GroupKeys keys) {
    GroupConfig config = spec.config();
    Duration limit = config.joinTimeout().plusNanos(GRACE_NANOS);
    Member member = null;
    try {
      FramedChannel framed =
          new Dialer(spec, new Handshake(keys), Handshake.Role.MEMBER, rank).dial(limit);
      member =
          new Member(
              spec,
              keys,
              rank,
              new ControlChannel(framed, spec),
              framed.localHost(),
              parent == null ? null : parent.children());
      member.start();
      if (parent != null) {
        parent.children().add(member, parent.ranks());
      }
      return join(member, framed, keys.ofLinks(spec));
    } catch (RuntimeException | Error e) {
      if (member != null) {
        tellOthers(member, e);
        member.leave();
        member.awaitFreed(0);
      }
      // With any other port the hub ends by itself, after it has waited a moment for late members.
      if (member == null || config.rendezvousPort() != 0) {
        endHub(hub, spec);
      } else if (hub != null) {
        // With the exception the process may end, and the hub's messages with it.
        hub.awaitTold(HUB_END_NANOS);
      }
      throw e;
    }
  }

  private MemberGroup join(Member member, FramedChannel framed, byte[] linkSecret) {
    GroupConfig config = spec.config();
    Backend backend = config.backend(); // AUTO was resolved when the ticket was created
    member.send(
        new Message.Hello(
            ProcessIdentity.ofMember(),
            LibraryVersion.get(),
            NativeCommunicator.buildId(),
            spec.worldSize(),
            backend.name()));
    Sockets.keepFromPrograms(framed.channel()); // the greeting has loaded the library
    // From here on, because the hub counts from the first greeting: what a slow process needs
    // before would end the wait before the hub can say who is missing.
    long deadline =
        System.nanoTime()
            + config
                .joinTimeout()
                .plusNanos(Math.max(GRACE_NANOS, config.heartbeatLimit().toNanos()))
                .toNanos();
    Device device = Devices.open(backend, deviceOrdinal);
    NativeCommunicator communicator =
        NativeCommunicator.prepare(
            spec.label(),
            backend,
            deviceOrdinal,
            rank,
            spec.worldSize(),
            spec.uniqueId(),
            links(member, linkSecret),
            config);
    member.own(communicator, backend == Backend.CUDA);
    member.send(new Message.Descriptor(communicator.descriptor()));
    connect(member, communicator, await(member, member::members, deadline));
    member.send(new Message.Connected());
    await(member, () -> member.isReady() ? member : null, deadline);
    member.announce(communicator);
    if (hub != null) {
      hub.show(member.view(communicator));
    }
    return new MemberGroup(spec, rank, backend, device, communicator, member, hub);
  }

  /**
   * Waits a moment if a peer cannot be mapped: it may have died or left, and that reason, which
   * arrives soon, says more.
   */
  private static void awaitLoss(Member member) {
    member.awaitEnd(System.nanoTime() + LOSS_NANOS);
    member.throwIfFailed();
    if (member.isClosing()) {
      throw member.closed(); // destroyed, as the peer was
    }
  }

  private <T> T await(Member member, Supplier<? extends @Nullable T> answer, long deadlineNanos) {
    T given;
    try {
      given = member.await(answer, deadlineNanos);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CollectiveException(
          "rank " + rank + " was interrupted while it joined " + spec.label(), e);
    }
    member.throwIfFailed();
    if (member.isClosing()) {
      throw member.closed(); // destroyed before it was complete
    }
    if (given == null) {
      throw new CollectiveTimeoutException(
          String.format(
              Locale.ROOT,
              "rank %d heard from the rendezvous of %s at %s, but not within %s that all had joined",
              rank,
              spec.label(),
              spec.place(),
              Phrases.seconds(spec.config().joinTimeout())),
          0);
    }
    return given;
  }

  private Links links(Member member, byte[] linkSecret) {
    return new Links(
        LinkAddress.of(spec.config().links().networkInterface(), member.localHost()),
        false,
        linkSecret);
  }

  private void connect(Member member, NativeCommunicator communicator, Message.Members members) {
    Hosts hosts = Hosts.of(members);
    if (!hosts.areTogether()) {
      throw refused(
          String.format(
              Locale.ROOT,
              "%s has ranks of one host apart: %s; the ranks of a host must be consecutive, so list the members in the order %s",
              spec.label(),
              hosts,
              order(hosts)),
          null);
    }
    int gpusPerNode = spec.config().gpusPerNode();
    if (hosts.areSeveral() && gpusPerNode > 0 && gpusPerNode < spec.worldSize()) {
      throw refused(
          String.format(
              Locale.ROOT,
              "%s spans hosts %s, each of which is a node; gpusPerNode is %d, which divides the members of one host into nodes, and must be 0",
              spec.label(),
              hosts.names(),
              gpusPerNode),
          null);
    }
    long ringBytes = spec.config().ringBytes();
    if (hosts.areSeveral()
        && ringBytes != 0
        && ringBytes < Rendezvous.minRingBytes(spec.worldSize())) {
      throw refused(
          String.format(
              Locale.ROOT,
              "%s spans hosts %s; ringBytes is %d, and must be 0 or at least %d for members on several hosts",
              spec.label(),
              hosts.names(),
              ringBytes,
              Rendezvous.minRingBytes(spec.worldSize())),
          null);
    }
    try {
      communicator.connect(
          Arrays.stream(members.inRankOrder())
              .map(Message.MemberInfo::descriptor)
              .toArray(byte[][]::new),
          hosts.elsewhere(rank));
    } catch (CollectiveException | BackendUnavailableException e) {
      CollectiveException ended = communicator.failure();
      if (ended != null) {
        // The library knows only that the group was ended; the member knows the reason.
        throw member
            .failures()
            .callFailed(e instanceof CollectiveException own ? own : ended, false);
      }
      awaitLoss(member);
      throw e;
    }
  }

  /** What every member finds for itself, so that all have to say the same. */
  private CollectiveException refused(String sentence, @Nullable Exception cause) {
    isForAll = true;
    return new CollectiveException(sentence, cause);
  }

  private static String order(Hosts hosts) {
    return Arrays.stream(hosts.together())
        .mapToObj(Integer::toString)
        .collect(Collectors.joining(", "));
  }

  private void tellOthers(Member member, Throwable e) {
    String sentence = e instanceof Error ? e.toString() : String.valueOf(e.getMessage());
    if (isForAll) {
      member.fail(Failure.of(Failure.Kind.ABORTED, sentence), true);
      return;
    }
    String told =
        String.format(
            Locale.ROOT, "rank %d (%s) could not join %s: %s", rank, self, spec.label(), sentence);
    // If another member reported it, it is already recorded and not reported again.
    member.fail(
        e instanceof CollectiveException known
            ? Failure.like(known, told).forOthers(told)
            : Failure.of(
                e instanceof BackendUnavailableException
                    ? Failure.Kind.UNAVAILABLE
                    : Failure.Kind.ABORTED,
                told),
        true);
  }

  /**
   * Waits until the port of a group that rank 0 has left is free, and, if all members have closed,
   * until they have left, too. Otherwise the hub keeps running for the others.
   */
  static void awaitHub(Rendezvous hub, boolean allClosed) {
    hub.awaitShut(HUB_END_NANOS);
    if (allClosed) {
      hub.awaitEnd(OTHERS_END_NANOS);
    }
  }

  /**
   * Gives the rendezvous of a group that was never formed time to send its last messages, then ends
   * it.
   */
  public static void endHub(@Nullable Rendezvous hub, GroupSpec spec) {
    if (hub != null && !hub.awaitEnd(HUB_END_NANOS)) {
      hub.discard("rank 0 has left " + spec.label());
      hub.awaitEnd(HUB_END_NANOS);
    }
  }
}
