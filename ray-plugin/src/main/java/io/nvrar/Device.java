package io.nvrar;

/**
 * Where a rank's buffers live and its streams run: a GPU, or the host. Safe for use by many
 * threads.
 */
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
   */
  DeviceBuffer allocate(DataType dataType, long count);

  /**
   * Allocates uninitialised host memory that this device can copy from and to by itself, for {@link
   * DeviceStream#copy}. To a group it is a buffer of the host. At most 2 GiB.
   *
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   */
  DeviceBuffer allocatePinned(DataType dataType, long count);

  /** Creates an event. */
  DeviceEvent createEvent();

  /** Creates a stream. */
  DeviceStream createStream();

  /**
   * Runs {@code work} once while {@code stream} records what is submitted to it, by any thread,
   * instead of executing it.
   *
   * @param stream a stream of this device that is not capturing
   * @param work submits to {@code stream}; if it throws, the capture is dropped and the exception
   *     goes on
   * @return what was recorded; launch it as often as you like
   * @throws IllegalArgumentException if the stream is one of another device
   * @throws IllegalStateException if the stream is closed, is capturing already, or is closed
   *     before {@code work} returns
   */
  DeviceGraph capture(DeviceStream stream, Runnable work);
}
