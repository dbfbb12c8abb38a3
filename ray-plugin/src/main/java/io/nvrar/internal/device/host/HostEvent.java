package io.nvrar.internal.device.host;

import io.nvrar.Device;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/**
 * An event of the host. When it is recorded, everything submitted to the stream before has already
 * been executed.
 */
final class HostEvent implements DeviceEvent {
  private final HostDevice device;

  // Guarded by this.
  private boolean closed;
  private boolean recorded;
  private long nanos;
  private @Nullable HostStream capture;

  HostEvent(HostDevice device) {
    this.device = device;
  }

  /** Casts to an event of the host, or throws an exception that names both sides. */
  static HostEvent require(DeviceEvent event, String what) {
    if (event instanceof HostEvent host) {
      return host;
    }
    throw new IllegalArgumentException(
        what + " on the host needs an event of the host, not one of " + event.device());
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
  public synchronized void record(DeviceStream stream) {
    requireOpen("record");
    HostStream on = HostStream.require(stream, "recording an event");
    on.requireOpen("record");
    capture = on.isCapturing() ? on : null;
    recorded = true;
    nanos = System.nanoTime();
  }

  @Override
  public boolean isDone() {
    happened("isDone");
    return true;
  }

  @Override
  public void synchronize() {
    happened("synchronize");
  }

  @Override
  public CompletionStage<Void> whenDone() {
    happened("whenDone");
    return CompletableFuture.completedStage(null);
  }

  @Override
  public Duration elapsedSince(DeviceEvent start) {
    long end = happened("elapsedSince");
    HostEvent first = require(start, "elapsedSince");
    long begin = first.happened("elapsedSince");
    if (!isRecorded() || !first.isRecorded()) {
      throw new IllegalStateException(
          "elapsedSince was called on an event that was never recorded");
    }
    return Duration.ofNanos(end - begin);
  }

  @Override
  public synchronized void close() {
    closed = true;
  }

  /** Refuses a wait that on a GPU would add a second stream to the capture. */
  synchronized void checkWaitBy(HostStream stream) {
    requireOpen("waitFor");
    if (capture != null && capture != stream && capture.isCapturing()) {
      throw new IllegalStateException(
          "waitFor was called with an event of a stream that captures; the host captures one stream only");
    }
  }

  private synchronized long happened(String what) {
    requireOpen(what);
    if (capture != null) {
      throw new IllegalStateException(
          what + " was called on an event that was recorded while its stream captured");
    }
    return nanos;
  }

  private synchronized boolean isRecorded() {
    return recorded;
  }

  private void requireOpen(String what) {
    if (closed) {
      throw new IllegalStateException(what + " was called with a closed event");
    }
  }
}
