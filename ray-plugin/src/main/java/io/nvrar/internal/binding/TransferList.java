package io.nvrar.internal.binding;

import io.nvrar.DeviceBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The sends and recvs of a batch, in the order of the calls. Adding allocates only if the list was
 * never this long before. Not thread-safe.
 */
public final class TransferList {
  private static final int CAPACITY_MIN = 16;

  private @Nullable DeviceBuffer[] buffers;
  private boolean[] sends;
  private int[] peers;
  private int size;

  /** An empty list. */
  public TransferList() {
    this(CAPACITY_MIN);
  }

  private TransferList(int capacity) {
    buffers = new DeviceBuffer[capacity];
    sends = new boolean[capacity];
    peers = new int[capacity];
  }

  /** Appends a send of a buffer to a rank. */
  public void addSend(DeviceBuffer buffer, int peer) {
    add(true, buffer, peer);
  }

  /** Appends a recv of a buffer from a rank. */
  public void addRecv(DeviceBuffer buffer, int peer) {
    add(false, buffer, peer);
  }

  private void add(boolean isSend, DeviceBuffer buffer, int peer) {
    if (size == peers.length) {
      int capacity = 2 * size;
      buffers = Arrays.copyOf(buffers, capacity);
      sends = Arrays.copyOf(sends, capacity);
      peers = Arrays.copyOf(peers, capacity);
    }
    buffers[size] = buffer;
    sends[size] = isSend;
    peers[size] = peer;
    size++;
  }

  /** The number of transfers. */
  public int size() {
    return size;
  }

  /** The buffer of a transfer. */
  public DeviceBuffer buffer(int index) {
    return Objects.requireNonNull(buffers[index]);
  }

  /** Whether a transfer is a send. */
  public boolean isSend(int index) {
    return sends[index];
  }

  /** The other rank of a transfer. */
  public int peer(int index) {
    return peers[index];
  }

  /** Empties the list and drops the references to the buffers. */
  public void clear() {
    Arrays.fill(buffers, 0, size, null);
    size = 0;
  }

  /** An independent copy of this list. */
  public TransferList copy() {
    TransferList copy = new TransferList(Math.max(1, size));
    System.arraycopy(buffers, 0, copy.buffers, 0, size);
    System.arraycopy(sends, 0, copy.sends, 0, size);
    System.arraycopy(peers, 0, copy.peers, 0, size);
    copy.size = size;
    return copy;
  }
}
