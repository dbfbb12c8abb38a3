package io.nvrar.internal.device.host;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.memory.ElementBuffer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A stream of the host: submitted work runs at once on the submitting thread, or is recorded while
 * the stream captures. Thread-safe, but concurrent threads must order their work themselves.
 */
public final class HostStream implements DeviceStream {
  private final HostDevice device;

  // Both written under the lock of this stream; recording is null while not capturing.
  private volatile boolean closed;
  private volatile @Nullable List<Runnable> recording;

  HostStream(HostDevice device) {
    this.device = device;
  }

  /** Casts to a stream of the host, or throws an exception that names both sides. */
  static HostStream require(DeviceStream stream, String what) {
    if (stream instanceof HostStream host) {
      return host;
    }
    throw new IllegalArgumentException(
        what + " on the host needs a stream of the host, not one of " + stream.device());
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public long handle() {
    return 0;
  }

  @Override
  public boolean isCapturing() {
    return recording != null;
  }

  /**
   * Runs {@code work} now on this thread, or records it while the stream captures.
   *
   * @param work its exceptions propagate to the caller of {@code submit} or of the graph's launch
   * @throws IllegalStateException if the stream is closed
   */
  public void submit(Runnable work) {
    requireOpen("submit");
    if (recording == null || !add(work)) {
      work.run();
    }
  }

  /**
   * Returns at once: an immediate stream has nothing outstanding.
   *
   * @throws IllegalStateException if the stream is closed, or captures: recorded work does not run,
   *     so it cannot be waited for
   */
  @Override
  public void synchronize() {
    requireOpen("synchronize");
    if (isCapturing()) {
      throw new IllegalStateException(
          "synchronize was called on a stream that is capturing; what it records runs when the graph is launched");
    }
  }

  /** {@inheritDoc} A capture in progress ends and fails; its recorded work is dropped. */
  @Override
  public synchronized void close() {
    closed = true;
    recording = null;
  }

  /** Whether {@link #close} was called. */
  public boolean isClosed() {
    return closed;
  }

  @Override
  public void copy(DeviceBuffer source, DeviceBuffer target) {
    submit(new HostCopy(source, target));
  }

  @Override
  public void waitFor(DeviceEvent event) {
    requireOpen("waitFor");
    HostEvent.require(event, "waitFor").checkWaitBy(this);
  }

  /** Captures the work that {@code work} submits. */
  List<Runnable> record(Runnable work) {
    beginCapture();
    try {
      work.run();
    } catch (Throwable e) {
      dropCapture();
      throw e;
    }
    return endCapture();
  }

  private synchronized void beginCapture() {
    requireOpen("capture");
    if (recording != null) {
      throw new IllegalStateException(
          "capture was called on a stream that is already capturing; captures of one stream do not nest");
    }
    recording = new ArrayList<>();
  }

  /** Ends the capture; returns the recorded work. */
  private synchronized List<Runnable> endCapture() {
    List<Runnable> recorded = recording;
    if (recorded == null) {
      throw new IllegalStateException(
          "the stream was closed while it was capturing; what it had recorded is dropped");
    }
    recording = null;
    return recorded;
  }

  private synchronized void dropCapture() {
    recording = null;
  }

  /** Throws if the stream is closed or captures, because such copies cannot be recorded. */
  void requireRunning(String what) {
    requireOpen(what);
    if (isCapturing()) {
      throw new IllegalStateException(ElementBuffer.notRecorded(what));
    }
  }

  void requireOpen(String what) {
    if (closed) {
      throw new IllegalStateException(what + " was called on a closed stream");
    }
  }

  // Returns false if the capture ended between the caller's check and the lock.
  private synchronized boolean add(Runnable work) {
    requireOpen("submit");
    List<Runnable> open = recording;
    return open != null && open.add(work);
  }
}
