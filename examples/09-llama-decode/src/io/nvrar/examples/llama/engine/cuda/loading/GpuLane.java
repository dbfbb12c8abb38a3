package io.nvrar.examples.llama.engine.cuda.loading;

import com.sun.jna.Pointer;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Copies pieces to a GPU on a stream of its own: from one pinned buffer, while a thread fills the
 * other.
 */
public final class GpuLane implements ParallelLoading.Lane<DeviceBuffer> {
  private final Resources resources = new Resources();
  private final DeviceStream stream;
  private final Slot[] slots = new Slot[2];
  private ByteBuffer ofOtherType = ByteBuffer.allocate(0);
  private int at;

  /** A pinned buffer, and when it was read from. */
  private record Slot(DeviceBuffer pinned, ByteBuffer memory, DeviceEvent copied) {}

  /**
   * Makes room.
   *
   * @param type of what most pieces are; others are few and small
   */
  GpuLane(Device device, DataType type, int pieceBytes) {
    try {
      stream = device.createStream();
      resources.own(stream::close);
      for (int i = 0; i < slots.length; i++) {
        DeviceBuffer pinned = resources.allocatePinned(device, type, pieceBytes / type.sizeBytes());
        DeviceEvent copied = device.createEvent();
        resources.own(copied::close);
        ByteBuffer memory = new Pointer(pinned.address()).getByteBuffer(0, pinned.sizeBytes());
        slots[i] = new Slot(pinned, memory.order(ByteOrder.LITTLE_ENDIAN), copied);
      }
      // Closed first: what is still copied after a failure reads the buffers.
      resources.own(stream::synchronize);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  @Override
  public ByteBuffer next(ParallelLoading.Piece<DeviceBuffer> piece) {
    if (!isPinned(piece)) {
      ofOtherType = ByteBuffer.allocate(piece.bytes()).order(ByteOrder.LITTLE_ENDIAN);
      return ofOtherType;
    }
    at = (at + 1) % slots.length;
    slots[at].copied().synchronize();
    return slots[at].memory().clear().limit(piece.bytes());
  }

  @Override
  public void copy(ParallelLoading.Piece<DeviceBuffer> piece) {
    int size = piece.format().sizeBytes();
    DeviceBuffer target = piece.target().slice(piece.offset() / size, piece.bytes() / size);
    if (isPinned(piece)) {
      stream.copy(slots[at].pinned().slice(0, target.count()), target);
      slots[at].copied().record(stream);
    } else {
      target.copyFrom(ofOtherType.flip(), stream);
    }
  }

  @Override
  public void finish() {
    stream.synchronize();
  }

  @Override
  public void close() {
    resources.close();
  }

  private boolean isPinned(ParallelLoading.Piece<DeviceBuffer> piece) {
    return piece.target().dataType() == slots[0].pinned().dataType();
  }
}
