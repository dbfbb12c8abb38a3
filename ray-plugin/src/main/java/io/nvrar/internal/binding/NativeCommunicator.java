package io.nvrar.internal.binding;

import io.nvrar.AllReduceFusion;
import io.nvrar.Backend;
import io.nvrar.Collective;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupStatistics;
import io.nvrar.TopK;
import io.nvrar.internal.events.CallEvents;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One member of a native communicator: a {@code nvrar_comm} that is safe against concurrent use and
 * close by Java threads. Statuses become the exceptions of {@code io.nvrar}. One collective runs at
 * a time; a second one throws an {@link IllegalStateException}; {@link #abort}, {@link #refresh},
 * {@link #call}, {@link #failure} and {@link #close} are safe from any thread at any time.
 *
 * <p>Addresses must belong to live memory of the communicator's backend; they are not checked here.
 */
public final class NativeCommunicator implements AutoCloseable {
  /** The number of calls that a rank's flight record holds. */
  public static final int FLIGHT_RECORDS = NvrarBinding.FLIGHT_RECORDS;

  private static final int NO_TYPE = -1;

  private final int rank;
  private final int worldSize;
  private final byte[] descriptor;
  private final NativeMember member;
  private final CallEvents events;

  private NativeCommunicator(long comm, String group, int rank, int worldSize, byte[] descriptor) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.descriptor = descriptor;
    member = new NativeMember(comm, group, rank, worldSize);
    ByteBuffer algorithm =
        NativeMemory.view(NvrarBinding.nvrar_last_algorithm(comm), Integer.BYTES);
    events = new CallEvents(group, rank, () -> algorithm.getInt(0));
  }

  /**
   * The build id of the loaded library; members with different ones cannot join one group.
   *
   * @throws io.nvrar.BackendUnavailableException if the library cannot be loaded
   */
  public static String buildId() {
    NativeLibraries.ensureAvailable();
    return NativeStatus.text(NvrarBinding.nvrar_build_id());
  }

  /**
   * Throws unless the library can be loaded and the backend can run on this machine.
   *
   * @param backend not AUTO
   * @throws io.nvrar.BackendUnavailableException otherwise, with what is missing
   */
  public static void ensureAvailable(Backend backend) {
    int code = backendCode(backend);
    NativeLibraries.ensureAvailable();
    NativeStatus.check(NvrarBinding.nvrar_probe(code));
  }

  /**
   * Creates a new group's unique id. This process must stay alive until all members have connected.
   *
   * @throws io.nvrar.BackendUnavailableException if the library or the backend cannot be used
   */
  public static byte[] uniqueId(Backend backend) {
    int code = backendCode(backend);
    NativeLibraries.ensureAvailable();
    GpuSettings.ofProcess().apply(backend);
    byte[] id = new byte[NvrarBinding.UNIQUE_ID_BYTES];
    NativeStatus.check(NvrarBinding.nvrar_unique_id(code, id));
    return id;
  }

  /**
   * Reserves this member's memory; {@link #connect} follows when all members' descriptors are
   * known.
   *
   * @param group the group's name in messages, such as {@code group 'tp'}
   * @param backend not AUTO
   * @param deviceOrdinal ignored by the CPU backend
   * @param rank 0 to {@code worldSize - 1}
   * @param worldSize the number of members
   * @param uniqueId the same on all members, from {@link #uniqueId}
   * @param links how this member is linked to members on other hosts
   * @param config the group's configuration
   * @throws io.nvrar.BackendUnavailableException if the library or the backend cannot be used
   * @throws io.nvrar.CollectiveException if the machine has not enough memory; everything is freed
   *     then
   */
  public static NativeCommunicator prepare(
      String group,
      Backend backend,
      int deviceOrdinal,
      int rank,
      int worldSize,
      byte[] uniqueId,
      Links links,
      GroupConfig config) {
    int code = backendCode(backend);
    requireLength("unique id", uniqueId, NvrarBinding.UNIQUE_ID_BYTES);
    NativeLibraries.ensureAvailable();
    GpuSettings settings = GpuSettings.ofProcess();
    settings.apply(backend);
    byte[] descriptor = new byte[NvrarBinding.DESCRIPTOR_BYTES];
    byte[] handle = new byte[Long.BYTES];
    NativeStatus.check(
        NvrarBinding.nvrar_prepare(
            NativeStructs.config(
                code, rank, worldSize, deviceOrdinal, settings.sharedDevices(), links, config),
            NativeStructs.rules(config.tuning().rules()),
            config.tuning().rules().size(),
            uniqueId,
            descriptor,
            handle));
    long comm = ByteBuffer.wrap(handle).order(ByteOrder.nativeOrder()).getLong();
    return new NativeCommunicator(comm, group, rank, worldSize, descriptor);
  }

  /** The descriptor that the other members need to map this member. */
  public byte[] descriptor() {
    return descriptor.clone();
  }

  /** {@link #connect(byte[][], BitSet)} for a group on one host. */
  public void connect(byte[][] descriptorsInRankOrder) {
    connect(descriptorsInRankOrder, new BitSet());
  }

  /**
   * Maps the peers of this host, and links this member to the others. Called once.
   *
   * @param elsewhere the ranks on other hosts, whose calls may not be known here
   */
  public void connect(byte[][] descriptorsInRankOrder, BitSet elsewhere) {
    if (descriptorsInRankOrder.length != worldSize) {
      throw new IllegalArgumentException(
          "a group of "
              + worldSize
              + " needs as many descriptors, not "
              + descriptorsInRankOrder.length);
    }
    ByteBuffer all = ByteBuffer.allocate(worldSize * NvrarBinding.DESCRIPTOR_BYTES);
    for (byte[] one : descriptorsInRankOrder) {
      requireLength("descriptor", one, NvrarBinding.DESCRIPTOR_BYTES);
      all.put(one);
    }
    member.enter("connect");
    try {
      member.checkCall(NvrarBinding.nvrar_connect(member.comm(), all.array()));
      member.connected(elsewhere);
    } finally {
      member.leave();
    }
  }

  /** The {@code nvrar_comm}, for measurements of bare native calls. */
  long comm() {
    return member.comm();
  }

  /** {@code nvrar_all_reduce}. */
  public void allReduce(
      long send, long recv, long count, int dataType, int op, int algorithm, long stream) {
    Object event = CallEvents.begin();
    member.enter("allReduce");
    try {
      member.checkCall(
          NativeCalls.allReduce(member.comm(), send, recv, count, dataType, op, algorithm, stream));
    } finally {
      events.end(event, Collective.ALL_REDUCE, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_all_reduce_fused}; the buffers are open. */
  public void allReduce(DeviceBuffer input, AllReduceFusion fusion, int algorithm, long stream) {
    Object event = CallEvents.begin();
    member.enter("allReduce");
    try {
      StructBlock block = member.fusion();
      NativeStructs.putFusion(block.struct(), input, fusion, algorithm);
      member.checkCall(NativeCalls.allReduceFused(member.comm(), block.address(), stream));
    } finally {
      events.end(event, Collective.ALL_REDUCE, input.dataType().code(), input.count());
      member.leave();
    }
  }

  /** {@code nvrar_top_k}; the buffers are open. */
  public void topK(DeviceBuffer input, TopK topK, long stream) {
    Object event = CallEvents.begin();
    member.enter("topK");
    try {
      StructBlock block = member.topK();
      NativeStructs.putTopK(block.struct(), input, topK);
      member.checkCall(NativeCalls.topK(member.comm(), block.address(), stream));
    } finally {
      events.end(event, Collective.ALL_GATHER, DataType.INT64.code(), topK.indices().count());
      member.leave();
    }
  }

  /** {@code nvrar_reduce}. */
  public void reduce(
      long send, long recv, long count, int dataType, int op, int root, long stream) {
    Object event = CallEvents.begin();
    member.enter("reduce");
    try {
      member.checkCall(
          NativeCalls.reduce(member.comm(), send, recv, count, dataType, op, root, stream));
    } finally {
      events.end(event, Collective.REDUCE, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_reduce_scatter}. */
  public void reduceScatter(long send, long recv, long count, int dataType, int op, long stream) {
    Object event = CallEvents.begin();
    member.enter("reduceScatter");
    try {
      member.checkCall(
          NativeCalls.reduceScatter(member.comm(), send, recv, count, dataType, op, stream));
    } finally {
      events.end(event, Collective.REDUCE_SCATTER, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_all_gather}. */
  public void allGather(long send, long recv, long count, int dataType, long stream) {
    Object event = CallEvents.begin();
    member.enter("allGather");
    try {
      member.checkCall(NativeCalls.allGather(member.comm(), send, recv, count, dataType, stream));
    } finally {
      events.end(event, Collective.ALL_GATHER, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_all_to_all}. */
  public void allToAll(long send, long recv, long count, int dataType, long stream) {
    Object event = CallEvents.begin();
    member.enter("allToAll");
    try {
      member.checkCall(NativeCalls.allToAll(member.comm(), send, recv, count, dataType, stream));
    } finally {
      events.end(event, Collective.ALL_TO_ALL, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_broadcast}. */
  public void broadcast(long send, long recv, long count, int dataType, int root, long stream) {
    Object event = CallEvents.begin();
    member.enter("broadcast");
    try {
      member.checkCall(
          NativeCalls.broadcast(member.comm(), send, recv, count, dataType, root, stream));
    } finally {
      events.end(event, Collective.BROADCAST, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_barrier}. */
  public void barrier(long stream) {
    Object event = CallEvents.begin();
    member.enter("barrier");
    try {
      member.checkCall(NativeCalls.barrier(member.comm(), stream));
    } finally {
      events.end(event, Collective.BARRIER, NO_TYPE, 0);
      member.leave();
    }
  }

  /** {@code nvrar_batch} of one {@code NVRAR_SEND}. */
  public void send(long address, long count, int dataType, int peer, long stream) {
    transfer("send", NativeStructs.SEND, address, count, dataType, peer, stream);
  }

  /** {@code nvrar_batch} of one {@code NVRAR_RECV}. */
  public void recv(long address, long count, int dataType, int peer, long stream) {
    transfer("recv", NativeStructs.RECV, address, count, dataType, peer, stream);
  }

  private void transfer(
      String what, int kind, long address, long count, int dataType, int peer, long stream) {
    Object event = CallEvents.begin();
    member.enter(what);
    try {
      TransferBlock block = member.transfers();
      block.clear(1);
      block.add(kind, peer, address, count, dataType);
      member.checkCall(NativeCalls.batch(member.comm(), block.address(), 1, stream));
    } finally {
      events.end(
          event, kind == NativeStructs.SEND ? Collective.SEND : Collective.RECV, dataType, count);
      member.leave();
    }
  }

  /** {@code nvrar_batch} of a send and a recv; the buffers are open. */
  public void sendReceive(
      DeviceBuffer send, int destination, DeviceBuffer recv, int source, long stream) {
    Object event = CallEvents.begin();
    member.enter("sendReceive");
    try {
      TransferBlock block = member.transfers();
      block.clear(2);
      add(block, NativeStructs.SEND, send, destination);
      add(block, NativeStructs.RECV, recv, source);
      member.checkCall(NativeCalls.batch(member.comm(), block.address(), 2, stream));
    } finally {
      events.endBatch(event, bytes(send) + bytes(recv));
      member.leave();
    }
  }

  /** {@code nvrar_batch} of the transfers in a list, whose buffers are open. */
  public void batch(TransferList transfers, long stream) {
    Object event = CallEvents.begin();
    member.enter("batch");
    try {
      int count = transfers.size();
      TransferBlock block = member.transfers();
      block.clear(count);
      for (int i = 0; i < count; i++) {
        add(
            block,
            transfers.isSend(i) ? NativeStructs.SEND : NativeStructs.RECV,
            transfers.buffer(i),
            transfers.peer(i));
      }
      member.checkCall(NativeCalls.batch(member.comm(), block.address(), count, stream));
    } finally {
      events.endBatch(event, event == null ? 0 : bytes(transfers));
      member.leave();
    }
  }

  private static long bytes(DeviceBuffer buffer) {
    return buffer.count() * buffer.dataType().sizeBytes();
  }

  private static long bytes(TransferList transfers) {
    long sum = 0;
    for (int i = 0; i < transfers.size(); i++) {
      sum += bytes(transfers.buffer(i));
    }
    return sum;
  }

  private static void add(TransferBlock block, int kind, DeviceBuffer buffer, int peer) {
    block.add(kind, peer, buffer.address(), buffer.count(), buffer.dataType().code());
  }

  /**
   * Ends the running call and all later ones with a {@link io.nvrar.CollectiveException}, on this
   * member and on every peer that shares memory with it. Never blocks and allocates nothing; does
   * nothing after {@link #close}.
   */
  public void abort() {
    member.abort();
  }

  /**
   * Asks the ranks on other hosts for their last calls, which {@link #call} then returns. Does
   * nothing if there are none, and after {@link #close}.
   *
   * @param wait whether to wait for the answers, at most 100 ms; not for threads on which other
   *     ranks depend
   */
  public void refresh(boolean wait) {
    member.refresh(wait);
  }

  /**
   * The last call of a rank, as that rank recorded it. Never blocks. Of a rank on another host it
   * is the one that this rank has last told, which it does when it is asked ({@link #refresh}),
   * when a call waits for long and when the group fails; {@link CallRecord#UNKNOWN} if it never
   * has. Available after {@link #abort} and after the rank's death. After {@link #close}, the state
   * at the time of the close.
   */
  public CallRecord call(int ofRank) {
    return member.call(ofRank);
  }

  /**
   * The connection to a rank on another host: this rank's end, the other one's, and its state, such
   * as {@code 10.0.0.1:40112 to 10.0.0.2:38211, open}. Never blocks. Null for a rank on this host,
   * and after {@link #close}.
   */
  public @Nullable String link(int ofRank) {
    return member.link(ofRank);
  }

  /**
   * What this member has called and waited for since {@link #prepare}. Never blocks. After {@link
   * #close}, the state at the time of the close.
   */
  public GroupStatistics statistics() {
    return member.statistics();
  }

  /** How often {@link #refresh} has asked a rank on another host; 0 for one on this host. */
  public long asked(int ofRank) {
    return member.asked(ofRank);
  }

  /**
   * Whether everything has come that a rank on another host sent before it was asked once more than
   * {@code asked} times: it has answered, or has left. Never blocks.
   *
   * @param asked what {@link #asked} returned
   */
  public boolean hasAnsweredAfter(int ofRank, long asked) {
    return member.hasAnsweredAfter(ofRank, asked);
  }

  /**
   * Whether a rank is on another host, so that {@link #flightRecord} may not have all of its last
   * calls.
   */
  public boolean isElsewhere(int ofRank) {
    return member.isElsewhere(ofRank);
  }

  /** The number of the last collective that this member has made; 0 if there was none. */
  public long lastCollective() {
    return member.lastCollective();
  }

  /**
   * A rank's last calls, oldest first, at most {@link #FLIGHT_RECORDS}, as that rank recorded them.
   * Available after {@link #abort} and after the rank's death. Empty before {@link #connect}, after
   * {@link #close}. Of a rank on another host, it has the calls that this rank has told.
   */
  public List<CallRecord> flightRecord(int ofRank) {
    return member.flightRecord(ofRank);
  }

  /**
   * Why this member is poisoned; null if it is not. After {@link #close}, the state at the time of
   * the close.
   */
  public @Nullable CollectiveException failure() {
    return member.failure();
  }

  /**
   * Ends a running call as {@link #abort} does, and frees this member's resources when it has left.
   * That happens before this method returns, unless the call's thread gets no CPU for 10 seconds.
   * Idempotent; throws nothing.
   */
  @Override
  public void close() {
    member.close();
  }

  @Override
  public String toString() {
    return "NativeCommunicator[rank " + rank + " of " + worldSize + "]";
  }

  private static int backendCode(Backend backend) {
    return switch (backend) {
      case CPU -> NativeStructs.CPU;
      case CUDA -> NativeStructs.CUDA;
      case AUTO ->
          throw new IllegalArgumentException(
              "AUTO is not a backend a group can run on; resolve it first");
    };
  }

  private static void requireLength(String what, byte[] bytes, int length) {
    if (bytes.length != length) {
      throw new IllegalArgumentException(
          "a " + what + " has " + length + " bytes, not " + bytes.length);
    }
  }
}
