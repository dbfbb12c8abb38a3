package io.nvrar.standalone;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import java.nio.ByteBuffer;

/** A GPU that no group of the host's computes on. */
public final class ForeignDevice implements Device {
  @Override
  public Backend backend() {
    return Backend.CUDA;
  }

  @Override
  public int ordinal() {
    return 3;
  }

  @Override
  public DeviceBuffer allocate(DataType dataType, long count) {
    return new ForeignBuffer(dataType, count);
  }

  @Override
  public DeviceBuffer allocatePinned(DataType dataType, long count) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceEvent createEvent() {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceStream createStream() {
    return new ForeignStream();
  }

  @Override
  public DeviceGraph capture(DeviceStream stream, Runnable work) {
    throw new UnsupportedOperationException();
  }

  @Override
  public String toString() {
    return "GPU 3";
  }

  public static final class ForeignStream implements DeviceStream {
    @Override
    public Device device() {
      return new ForeignDevice();
    }

    @Override
    public long handle() {
      return 1;
    }

    @Override
    public boolean isCapturing() {
      return false;
    }

    @Override
    public void synchronize() {}

    @Override
    public void copy(DeviceBuffer source, DeviceBuffer target) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void waitFor(DeviceEvent event) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void close() {}
  }

  public static final class ForeignBuffer implements DeviceBuffer {
    private final DataType dataType;
    private final long count;

    public ForeignBuffer() {
      this(DataType.FLOAT32, 8);
    }

    public ForeignBuffer(DataType dataType, long count) {
      this.dataType = dataType;
      this.count = count;
    }

    @Override
    public Device device() {
      return new ForeignDevice();
    }

    @Override
    public DataType dataType() {
      return dataType;
    }

    @Override
    public long count() {
      return count;
    }

    @Override
    public long address() {
      return 4096;
    }

    @Override
    public DeviceBuffer slice(long offset, long count) {
      return this;
    }

    @Override
    public void copyFrom(float[] source, int sourceOffset, long offset, int count) {}

    @Override
    public void copyTo(long offset, float[] target, int targetOffset, int count) {}

    @Override
    public void copyFrom(double[] source) {}

    @Override
    public void copyTo(double[] target) {}

    @Override
    public void copyFrom(byte[] source) {}

    @Override
    public void copyTo(byte[] target) {}

    @Override
    public void copyFrom(long[] source) {}

    @Override
    public void copyTo(long[] target) {}

    @Override
    public void copyFrom(int[] source) {}

    @Override
    public void copyTo(int[] target) {}

    @Override
    public void copyFrom(ByteBuffer source) {}

    @Override
    public void copyTo(ByteBuffer target) {}

    @Override
    public void copyFrom(double[] source, DeviceStream stream) {}

    @Override
    public void copyTo(double[] target, DeviceStream stream) {}

    @Override
    public void copyFrom(byte[] source, DeviceStream stream) {}

    @Override
    public void copyTo(byte[] target, DeviceStream stream) {}

    @Override
    public void copyFrom(int[] source, DeviceStream stream) {}

    @Override
    public void copyTo(int[] target, DeviceStream stream) {}

    @Override
    public void copyFrom(long[] source, DeviceStream stream) {}

    @Override
    public void copyTo(long[] target, DeviceStream stream) {}

    @Override
    public void copyFrom(ByteBuffer source, DeviceStream stream) {}

    @Override
    public void copyTo(ByteBuffer target, DeviceStream stream) {}

    @Override
    public void copyFrom(
        float[] source, int sourceOffset, long offset, int count, DeviceStream stream) {}

    @Override
    public void copyTo(
        long offset, float[] target, int targetOffset, int count, DeviceStream stream) {}

    @Override
    public void close() {}
  }
}
