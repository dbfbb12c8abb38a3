package io.nvrar.internal.binding;

import io.nvrar.Backend;
import io.nvrar.Collective;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.GroupStatistics;
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

  /** For measurements of bare native calls. */
  NativeMember member() {
    return member;
  }

  /**
   * Makes a call, whose buffers are open.
   *
   * @param stream the handle of the stream
   */
  public void run(Call call, long stream) {
    Object event = CallEvents.begin();
    member.enter(call.method());
    try {
      member.checkCall(NativeCalls.run(call, member, worldSize, stream));
    } finally {
      try {
        if (event != null) {
          end(event, call);
        }
      } finally {
        member.leave();
      }
    }
  }

  private void end(Object event, Call call) {
    switch (call.kind()) {
      case BARRIER -> events.end(event, Collective.BARRIER, NO_TYPE, 0);
      case TOP_K ->
          events.end(event, call.collective(), DataType.INT64.code(), call.recv().count());
      case SEND_RECEIVE, BATCH -> events.endBatch(event, call.bytes());
      default ->
          events.end(event, call.collective(), call.dataType().code(), call.count(worldSize));
    }
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
