package io.nvrar.internal.group;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.GroupHealth;
import io.nvrar.GroupStatistics;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.CallChecks;
import io.nvrar.internal.call.DeviceChecks;
import io.nvrar.internal.call.TransferChecks;
import io.nvrar.internal.channel.RankZeroView;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.events.GroupEvents;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The {@link CollectiveGroup} of a member. It implements the life cycle itself and delegates calls
 * to {@link MemberCalls} and {@link MemberTransfers}.
 */
public final class MemberGroup implements CollectiveGroup {
  private final GroupSpec spec;
  private final int rank;
  private final Backend backend;
  private final Device device;
  private final DeviceStream stream;
  private final Member member;
  private final NativeCommunicator communicator;
  private final CallGate gate;
  private final MemberCalls calls;
  private final MemberTransfers transfers;
  private final @Nullable Rendezvous hub;
  private final AtomicBoolean isLeft = new AtomicBoolean();

  /**
   * @param hub the rendezvous, which ends with this member; null except on rank 0
   */
  MemberGroup(
      GroupSpec spec,
      int rank,
      Backend backend,
      Device device,
      NativeCommunicator communicator,
      Member member,
      @Nullable Rendezvous hub) {
    this.spec = spec;
    this.rank = rank;
    this.backend = backend;
    this.device = device;
    this.member = member;
    this.communicator = communicator;
    this.hub = hub;
    stream = device.createStream();
    int worldSize = spec.worldSize();
    DeviceChecks deviceChecks = new DeviceChecks(device);
    gate = new CallGate(member, communicator);
    TransferChecks transferChecks = new TransferChecks(deviceChecks, rank, worldSize);
    calls =
        new MemberCalls(
            gate,
            new CallChecks(deviceChecks, transferChecks, rank, worldSize, isOneNode(spec, member)));
    transfers = new MemberTransfers(gate, calls, transferChecks, stream);
    if (stream instanceof AsyncStream async) {
      member.closing().own(async);
    }
    GroupLeak.watch(this, member);
    GroupEvents.created(spec.label(), rank, worldSize, backend);
  }

  /** Every host is a node; {@code gpusPerNode} divides one host into nodes. */
  private static boolean isOneNode(GroupSpec spec, Member member) {
    int gpusPerNode = spec.config().gpusPerNode();
    return !Hosts.of(Objects.requireNonNull(member.members())).areSeveral()
        && (gpusPerNode == 0 || gpusPerNode >= spec.worldSize());
  }

  /** {@link Member#setDriven}, and on rank 0 {@link Rendezvous#setDriven}. */
  public void setDriven() {
    member.setDriven();
    if (hub != null) {
      hub.setDriven();
    }
  }

  @Override
  public String name() {
    return spec.name();
  }

  @Override
  public int rank() {
    return rank;
  }

  @Override
  public int worldSize() {
    return spec.worldSize();
  }

  @Override
  public Backend backend() {
    return backend;
  }

  @Override
  public GroupConfig config() {
    return spec.config();
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public DeviceStream stream() {
    return stream;
  }

  @Override
  public void allReduce(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream on) {
    calls.run(calls.next().allReduce(send, recv, op, algorithm), on);
  }

  @Override
  public void allReduce(
      DeviceBuffer input, AllReduceFusion fusion, Algorithm algorithm, DeviceStream on) {
    calls.run(calls.next().allReduce(input, fusion, algorithm), on);
  }

  @Override
  public void topK(DeviceBuffer input, TopK topK, DeviceStream on) {
    calls.run(calls.next().topK(input, topK), on);
  }

  @Override
  public void reduce(
      DeviceBuffer send, @Nullable DeviceBuffer recv, ReduceOp op, int root, DeviceStream on) {
    calls.run(calls.next().reduce(send, rank == root ? recv : null, op, root), on);
  }

  @Override
  public void reduceScatter(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream on) {
    calls.run(calls.next().reduceScatter(send, recv, op), on);
  }

  @Override
  public void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    calls.run(calls.next().allGather(send, recv), on);
  }

  @Override
  public void allToAll(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    calls.run(calls.next().allToAll(send, recv), on);
  }

  @Override
  public void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream on) {
    calls.run(calls.next().broadcast(rank == root ? send : recv, recv, root), on);
  }

  @Override
  public void barrier(DeviceStream on) {
    calls.run(calls.next().barrier(), on);
  }

  @Override
  public void send(DeviceBuffer buffer, int peer) {
    transfers.send(buffer, peer, transfers.defaultStream());
  }

  @Override
  public void send(DeviceBuffer buffer, int peer, DeviceStream on) {
    transfers.send(buffer, peer, on);
  }

  @Override
  public void recv(DeviceBuffer buffer, int peer) {
    transfers.recv(buffer, peer, transfers.defaultStream());
  }

  @Override
  public void recv(DeviceBuffer buffer, int peer, DeviceStream on) {
    transfers.recv(buffer, peer, on);
  }

  @Override
  public void sendReceive(DeviceBuffer send, int destination, DeviceBuffer recv, int source) {
    transfers.sendReceive(send, destination, recv, source, transfers.defaultStream());
  }

  @Override
  public void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, DeviceStream on) {
    transfers.sendReceive(send, destination, recv, source, on);
  }

  @Override
  public void batch(Runnable work, DeviceStream on) {
    transfers.batch(work, on);
  }

  @Override
  public Optional<CollectiveGroup> split(int color, int key) {
    gate.refuseInBatch("split");
    gate.enterCollective();
    try {
      return Optional.ofNullable(
          member.splitting().split(color, key, communicator.lastCollective(), device.ordinal()));
    } finally {
      gate.leave();
    }
  }

  @Override
  public Optional<CollectiveGroup> newGroup(int... ranks) {
    gate.refuseInBatch("newGroup");
    Splitting splitting = member.splitting();
    splitting.checkRanks(ranks);
    gate.enterCollective();
    try {
      return Optional.ofNullable(
          splitting.newGroup(ranks.clone(), communicator.lastCollective(), device.ordinal()));
    } finally {
      gate.leave();
    }
  }

  @Override
  public @Nullable CollectiveException failure() {
    return member.failure();
  }

  @Override
  public void addFailureListener(Consumer<CollectiveException> listener) {
    member.addFailureListener(listener);
  }

  @Override
  public void removeFailureListener(Consumer<CollectiveException> listener) {
    member.removeFailureListener(listener);
  }

  /** For tests. */
  Member member() {
    return member;
  }

  /** For tests: rank 0's rendezvous. */
  @Nullable Rendezvous hub() {
    return hub;
  }

  /** For tests: the calls that its streams check. */
  CallGate gate() {
    return gate;
  }

  @Override
  public GroupHealth health() {
    return member.health();
  }

  @Override
  public GroupStatistics statistics() {
    return member.statistics();
  }

  @Override
  public void writeFlightRecord(Path file) throws IOException {
    member.writeFlightRecord(file);
  }

  @Override
  public void throwIfFailed() {
    gate.throwIfFailed();
  }

  @Override
  public void abort(String reason) {
    member.abort(reason);
  }

  @Override
  public void abort(Throwable reason) {
    member.abort(reason);
  }

  @Override
  public boolean isClosed() {
    return member.isClosed();
  }

  @Override
  public void close() {
    close(spec.config().joinTimeout().toNanos());
  }

  @Override
  public void close(Duration limit) {
    if (limit.compareTo(Duration.ofMillis(1)) < 0 || limit.compareTo(Duration.ofDays(1)) > 0) {
      throw new IllegalArgumentException("limit is " + limit + ", must be 1 ms to 1 day");
    }
    close(limit.toNanos());
  }

  /** {@link #close(Duration)} without a least limit. */
  void close(long orderlyNanos) {
    MemberClose closing = member.closing();
    if (isLeft.compareAndSet(false, true)) {
      GroupEvents.closed(spec.label(), rank, worldSize(), backend);
    }
    closing.disownStream();
    closing.begin();
    closing.awaitFreed(orderlyNanos);
    member.withdraw(); // it may have left a failed group by itself
    stream.close();
    if (hub != null) {
      // After its end this member would only report the calls that it saw before.
      hub.show(RankZeroView.NOTHING);
      Joining.awaitHub(hub, closing.isAllClosed());
    }
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT, "%s[rank %d of %d, %s]", spec.label(), rank, spec.worldSize(), backend);
  }
}
