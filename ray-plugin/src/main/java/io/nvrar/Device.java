package io.nvrar;

/** A GPU or the host: where a rank's buffers live and its streams run. Thread-safe. */
public interface Device {

  /** {@link Backend#CPU} for the host, {@link Backend#CUDA} for a GPU. */
  Backend backend();

  /** The device's ordinal in this process; 0 for the host. */
  int ordinal();

  /**
   * Allocates uninitialised memory, aligned to 256 bytes.
   *
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   * @throws IllegalArgumentException if {@code count} is negative
   * @throws DeviceMemoryException if the device does not have that much free memory
   */
  DeviceBuffer allocate(DataType dataType, long count);

  /**
   * Allocates uninitialised host memory that this device can access directly, for {@link
   * DeviceStream#copy}. On a GPU it is page-locked (pinned), and at most 2 GiB. Groups treat it as
   * a host buffer.
   *
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   * @throws IllegalArgumentException if {@code count} is negative or the buffer is too large
   * @throws DeviceMemoryException if the host does not have that much free memory
   */
  DeviceBuffer allocatePinned(DataType dataType, long count);

  /** Creates an event. */
  DeviceEvent createEvent();

  /**
   * Creates a stream. On a GPU it is a non-blocking one: it and the default streams of CUDA do not
   * wait for each other.
   */
  DeviceStream createStream();

  /**
   * Runs {@code work} once. Meanwhile {@code stream} records whatever any thread submits to it,
   * instead of executing it.
   *
   * @param stream a stream of this device that is not capturing
   * @param work submits to {@code stream}; if it throws, the capture is dropped and the exception
   *     propagates
   * @return the recorded work, which can be launched any number of times
   * @throws IllegalArgumentException if the stream belongs to another device
   * @throws IllegalStateException if the stream is closed, is capturing already, or is closed
   *     before {@code work} returns
   */
  DeviceGraph capture(DeviceStream stream, Runnable work);
}
