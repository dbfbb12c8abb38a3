package io.nvrar.examples.llama.engine.cpu;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The communication of the engine: passes rows of floats through the group's collectives, and
 * measures the time. Buffers and slices are created before the first collective of their size and
 * kept.
 */
final class TensorParallel implements AutoCloseable {
  private final CollectiveGroup group;
  private final int hiddenSize;
  private final int partSize;
  private @Nullable Buffers buffers;
  private long nanos;

  /**
   * For a group.
   *
   * @param hiddenSize numbers of a row to be reduced
   * @param partSize numbers of the largest part of a row to be gathered
   */
  TensorParallel(CollectiveGroup group, int hiddenSize, int partSize) {
    this.group = group;
    this.hiddenSize = hiddenSize;
    this.partSize = partSize;
  }

  /** Allocates buffers, and resets the time to 0. */
  void reserve(int reduceRows, int gatherRows) {
    close();
    buffers = new Buffers(group, (long) hiddenSize, (long) partSize, reduceRows, gatherRows);
    nanos = 0;
  }

  /** Replaces rows of partial sums by their sums over the ranks. */
  void allReduce(float[][] rows, int count) {
    Buffers room = room();
    long begin = System.nanoTime();
    for (int row = 0; row < count; row++) {
      room.reduce.copyFrom(rows[row], 0, (long) row * hiddenSize, hiddenSize);
    }
    group.allReduce(room.reduceRows[count - 1]);
    for (int row = 0; row < count; row++) {
      room.reduce.copyTo((long) row * hiddenSize, rows[row], 0, hiddenSize);
    }
    nanos += System.nanoTime() - begin;
  }

  /** Gives all ranks' parts of some rows to all ranks; read them with {@link #gathered}. */
  void allGather(float[][] parts, int size, int count) {
    Buffers room = room();
    long begin = System.nanoTime();
    for (int row = 0; row < count; row++) {
      room.send.copyFrom(parts[row], 0, (long) row * partSize, size);
    }
    group.allGather(room.sendRows[count - 1], room.recvRows[count - 1]);
    nanos += System.nanoTime() - begin;
  }

  /** Copies a rank's part of a row out of the last {@link #allGather} of {@code count} rows. */
  void gathered(int count, int rank, int row, float[] target, int at, int size) {
    room().recv.copyTo(((long) rank * count + row) * partSize, target, at, size);
  }

  long nanos() {
    return nanos;
  }

  @Override
  public void close() {
    Buffers room = buffers;
    buffers = null;
    if (room != null) {
      room.reduce.close();
      room.send.close();
      room.recv.close();
    }
  }

  private Buffers room() {
    Buffers room = buffers;
    if (room == null) {
      throw new IllegalStateException("the engine has no sequences: call begin first");
    }
    return room;
  }

  private static final class Buffers {
    private final DeviceBuffer reduce;
    private final DeviceBuffer send;
    private final DeviceBuffer recv;
    private final DeviceBuffer[] reduceRows;
    private final DeviceBuffer[] sendRows;
    private final DeviceBuffer[] recvRows;

    Buffers(CollectiveGroup group, long hidden, long part, int reduceCount, int gatherCount) {
      reduce = zeroed(group, hidden * reduceCount);
      send = zeroed(group, part * gatherCount);
      recv = zeroed(group, part * gatherCount * group.worldSize());
      reduceRows = slices(reduce, hidden, reduceCount);
      sendRows = slices(send, part, gatherCount);
      recvRows = slices(recv, part * group.worldSize(), gatherCount);
    }

    // The padding of a short part of the vocabulary is sent, too, so it must be a valid number.
    private static DeviceBuffer zeroed(CollectiveGroup group, long count) {
      DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, count);
      float[] zeros = new float[(int) Math.min(count, 1 << 16)];
      for (long at = 0; at < count; at += zeros.length) {
        buffer.copyFrom(zeros, 0, at, (int) Math.min(zeros.length, count - at));
      }
      return buffer;
    }

    private static DeviceBuffer[] slices(DeviceBuffer buffer, long rowSize, int rows) {
      DeviceBuffer[] slices = new DeviceBuffer[rows];
      for (int row = 0; row < rows; row++) {
        slices[row] = buffer.slice(0, (row + 1) * rowSize);
      }
      return slices;
    }
  }
}
