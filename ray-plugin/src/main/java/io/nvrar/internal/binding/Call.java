package io.nvrar.internal.binding;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Collective;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * One call of a group as its caller made it: what it does, and its arguments. A call is filled by
 * the method of its name, runs, and is cleared for the next one, so that calls allocate nothing.
 * Buffers may be null or closed until the call was checked. Not thread-safe.
 */
public final class Call {
  /** What calls do. */
  public enum Kind {
    ALL_REDUCE(Collective.ALL_REDUCE),
    FUSED_ALL_REDUCE(Collective.ALL_REDUCE),
    TOP_K("topK", Collective.ALL_GATHER),
    REDUCE(Collective.REDUCE),
    REDUCE_SCATTER(Collective.REDUCE_SCATTER),
    ALL_GATHER(Collective.ALL_GATHER),
    ALL_TO_ALL(Collective.ALL_TO_ALL),
    BROADCAST(Collective.BROADCAST),
    BARRIER(Collective.BARRIER),
    SEND(Collective.SEND),
    RECV(Collective.RECV),
    SEND_RECEIVE("sendReceive", Collective.SEND),
    BATCH("batch", Collective.SEND);

    private final String method;
    private final Collective collective;

    Kind(Collective collective) {
      this(collective.method(), collective);
    }

    Kind(String method, Collective collective) {
      this.method = method;
      this.collective = collective;
    }

    /** Whether it moves data between two ranks only. */
    public boolean isTransfer() {
      return compareTo(SEND) >= 0;
    }

    /** Whether the native library takes its arguments in structs. */
    boolean takesStructs() {
      return isTransfer() || this == FUSED_ALL_REDUCE || this == TOP_K;
    }
  }

  private static final int CAPACITY = 8;

  private Kind kind = Kind.BARRIER;
  private @Nullable DeviceBuffer[] buffers = new DeviceBuffer[CAPACITY];

  /** Of each buffer of a transfer: its other rank, and whether it is sent. */
  private int[] peers = new int[CAPACITY];

  private boolean[] sends = new boolean[CAPACITY];
  private int size;

  /** Of the last call that has one. */
  private @Nullable ReduceOp op;

  /** Of the last call that has one. */
  private @Nullable Algorithm algorithm;

  private @Nullable AllReduceFusion fusion;
  private @Nullable TopK topK;
  private int root;

  /** An all-reduce. */
  public Call allReduce(DeviceBuffer send, DeviceBuffer recv, ReduceOp reduceOp, Algorithm by) {
    reducesBy(reduceOp);
    chooses(by);
    return of(Kind.ALL_REDUCE, send, recv);
  }

  /** A fused all-reduce. */
  public Call allReduce(DeviceBuffer input, @Nullable AllReduceFusion with, Algorithm by) {
    fusion = with;
    chooses(by);
    of(Kind.FUSED_ALL_REDUCE, input);
    if (with != null) {
      add(with.output());
      add(with.residualIn());
      add(with.residualOut());
      add(with.weight());
      add(with.squares());
    }
    return this;
  }

  /** A top-k. */
  public Call topK(DeviceBuffer input, @Nullable TopK which) {
    topK = which;
    of(Kind.TOP_K, input);
    if (which != null) {
      add(which.indices());
      add(which.values());
    }
    return this;
  }

  /**
   * A reduce.
   *
   * @param recv null if this rank is not the root
   */
  public Call reduce(
      DeviceBuffer send, @Nullable DeviceBuffer recv, ReduceOp reduceOp, int rootRank) {
    reducesBy(reduceOp);
    root = rootRank;
    return of(Kind.REDUCE, send, recv);
  }

  /** A reduce-scatter. */
  public Call reduceScatter(DeviceBuffer send, DeviceBuffer recv, ReduceOp reduceOp) {
    reducesBy(reduceOp);
    return of(Kind.REDUCE_SCATTER, send, recv);
  }

  /** An all-gather. */
  public Call allGather(DeviceBuffer send, DeviceBuffer recv) {
    return of(Kind.ALL_GATHER, send, recv);
  }

  /** An all-to-all. */
  public Call allToAll(DeviceBuffer send, DeviceBuffer recv) {
    return of(Kind.ALL_TO_ALL, send, recv);
  }

  /**
   * A broadcast.
   *
   * @param send {@code recv} if this rank is not the root
   */
  public Call broadcast(DeviceBuffer send, DeviceBuffer recv, int rootRank) {
    root = rootRank;
    return of(Kind.BROADCAST, send, recv);
  }

  /** A barrier. */
  public Call barrier() {
    kind = Kind.BARRIER;
    return this;
  }

  /** A send by itself. */
  public Call send(DeviceBuffer buffer, int peer) {
    return batch(Kind.SEND).addSend(buffer, peer);
  }

  /** A recv by itself. */
  public Call recv(DeviceBuffer buffer, int peer) {
    return batch(Kind.RECV).addRecv(buffer, peer);
  }

  /** A send and a recv together. */
  public Call sendReceive(DeviceBuffer send, int destination, DeviceBuffer recv, int source) {
    return batch(Kind.SEND_RECEIVE).addSend(send, destination).addRecv(recv, source);
  }

  /** A batch, to which transfers are added. */
  public Call batch() {
    return batch(Kind.BATCH);
  }

  private Call batch(Kind transfers) {
    kind = transfers;
    return this;
  }

  /** Adds a send to a batch. */
  public Call addSend(DeviceBuffer buffer, int peer) {
    return addTransfer(true, buffer, peer);
  }

  /** Adds a recv to a batch. */
  public Call addRecv(DeviceBuffer buffer, int peer) {
    return addTransfer(false, buffer, peer);
  }

  private Call addTransfer(boolean isSend, DeviceBuffer buffer, int peer) {
    add(buffer);
    sends[size - 1] = isSend;
    peers[size - 1] = peer;
    return this;
  }

  // A store of a reference costs a fence where the collector is G1, so none is made in vain.
  private void reducesBy(ReduceOp reduceOp) {
    if (op != reduceOp) {
      op = reduceOp;
    }
  }

  private void chooses(Algorithm by) {
    if (algorithm != by) {
      algorithm = by;
    }
  }

  private Call of(Kind collective, DeviceBuffer send, @Nullable DeviceBuffer recv) {
    of(collective, send);
    add(recv);
    return this;
  }

  private void of(Kind collective, DeviceBuffer input) {
    kind = collective;
    add(input);
  }

  private void add(@Nullable DeviceBuffer buffer) {
    if (size == sends.length) {
      buffers = Arrays.copyOf(buffers, 2 * size);
      peers = Arrays.copyOf(peers, 2 * size);
      sends = Arrays.copyOf(sends, 2 * size);
    }
    buffers[size++] = buffer;
  }

  /** Forgets the call; references no buffer any more. */
  public void clear() {
    for (int i = 0; i < size; i++) {
      buffers[i] = null;
    }
    size = 0;
    if (fusion != null) {
      fusion = null;
    }
    if (topK != null) {
      topK = null;
    }
  }

  /** Another call like this one. */
  public Call copy() {
    Call copy = new Call();
    copy.kind = kind;
    int capacity = Math.max(size, 1);
    copy.buffers = Arrays.copyOf(buffers, capacity);
    copy.peers = Arrays.copyOf(peers, capacity);
    copy.sends = Arrays.copyOf(sends, capacity);
    copy.size = size;
    copy.op = op;
    copy.algorithm = algorithm;
    copy.fusion = fusion;
    copy.topK = topK;
    copy.root = root;
    return copy;
  }

  public Kind kind() {
    return kind;
  }

  /** The method of {@link io.nvrar.CollectiveGroup} that makes it. */
  public String method() {
    return kind.method;
  }

  /** What it counts as; of several transfers that of the first. */
  Collective collective() {
    return kind.collective;
  }

  /** The number of its buffers, with the missing ones. */
  public int size() {
    return size;
  }

  /** A buffer; null if the call does without. */
  public @Nullable DeviceBuffer buffer(int index) {
    return buffers[index];
  }

  /** The buffer that a collective reads; only of a checked call. */
  public DeviceBuffer send() {
    return Objects.requireNonNull(buffers[0]);
  }

  /** The buffer that a collective writes; only of a checked call. */
  public DeviceBuffer recv() {
    return Objects.requireNonNull(buffers[1]);
  }

  /** The type of its elements; not of a barrier. */
  DataType dataType() {
    return recvCounts() ? recv().dataType() : send().dataType();
  }

  /** How many elements the native library is told that a collective has. */
  long count(int worldSize) {
    long whole = recvCounts() ? recv().count() : send().count();
    return kind == Kind.ALL_TO_ALL ? whole / worldSize : whole;
  }

  // The buffer that every rank has, and that is one rank's part.
  private boolean recvCounts() {
    return kind == Kind.REDUCE_SCATTER || kind == Kind.BROADCAST;
  }

  /** What all transfers of a batch move. */
  long bytes() {
    long sum = 0;
    for (int i = 0; i < size; i++) {
      sum += Objects.requireNonNull(buffers[i]).sizeBytes();
    }
    return sum;
  }

  /** The other rank of a transfer. */
  public int peer(int index) {
    return peers[index];
  }

  /** Whether a transfer is a send. */
  public boolean isSend(int index) {
    return sends[index];
  }

  public @Nullable ReduceOp op() {
    return op;
  }

  public @Nullable Algorithm algorithm() {
    return algorithm;
  }

  public @Nullable AllReduceFusion fusion() {
    return fusion;
  }

  public @Nullable TopK topK() {
    return topK;
  }

  public int root() {
    return root;
  }
}
