package io.nvrar.device.cuda;

import io.nvrar.Device;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.device.memory.Lease;
import java.time.Duration;
import java.util.function.Consumer;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** An event of a GPU, which counts time. */
final class CudaEvent implements DeviceEvent {
  private static final double NANOS_PER_MILLI = 1e6;

  private final CudaDevice device;
  private final GpuContext context;
  private final CUevent event = new CUevent();
  private final Lease lease;
  private volatile Place place = Place.NONE;

  /** On which it was recorded last. */
  private volatile @Nullable CudaStream stream;

  private enum Place {
    NONE,
    IN_A_CAPTURE,
    ON_A_STREAM
  }

  CudaEvent(CudaDevice device) {
    this.device = device;
    GpuContext of = device.context();
    CUevent made = event;
    context = of;
    of.call("cuEventCreate", () -> JCudaDriver.cuEventCreate(made, CUevent_flags.CU_EVENT_DEFAULT));
    lease = new Lease(() -> of.call("cuEventDestroy", () -> JCudaDriver.cuEventDestroy(made)));
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public void record(DeviceStream stream) {
    CudaStream on = device.requireStream(stream, "recording an event");
    Place next = on.isCapturing() ? Place.IN_A_CAPTURE : Place.ON_A_STREAM;
    use(
        "record",
        of -> on.submit("record", "cuEventRecord", queue -> JCudaDriver.cuEventRecord(of, queue)));
    place = next;
    this.stream = on;
  }

  @Override
  public boolean isDone() {
    boolean[] done = {true};
    ask(
        "isDone",
        of -> {
          int status = context.status(() -> JCudaDriver.cuEventQuery(of));
          if (status == CUresult.CUDA_ERROR_NOT_READY) {
            done[0] = false;
          } else if (status != CUresult.CUDA_SUCCESS) {
            throw DriverFailure.of("cuEventQuery", context, status);
          }
        });
    return done[0];
  }

  @Override
  public void synchronize() {
    ask(
        "synchronize",
        of -> context.call("cuEventSynchronize", () -> JCudaDriver.cuEventSynchronize(of)));
    CudaStream on = stream;
    if (on != null) {
      on.throwIfFailed();
    }
  }

  @Override
  public Duration elapsedSince(DeviceEvent start) {
    CudaEvent first = device.requireEvent(start, "elapsedSince");
    float[] millis = new float[1];
    ask(
        "elapsedSince",
        end ->
            first.ask(
                "elapsedSince",
                begin -> {
                  if (place == Place.NONE || first.place == Place.NONE) {
                    throw new IllegalStateException(
                        "elapsedSince was called on an event that was never recorded");
                  }
                  context.call(
                      "cuEventElapsedTime",
                      () -> JCudaDriver.cuEventElapsedTime(millis, begin, end));
                }));
    return Duration.ofNanos(Math.round(millis[0] * NANOS_PER_MILLI));
  }

  @Override
  public void close() {
    lease.close();
  }

  // The driver's documentation refuses this, but does not say for how long after the capture.
  private void ask(String what, Consumer<CUevent> call) {
    use(
        what,
        of -> {
          if (place == Place.IN_A_CAPTURE) {
            throw new IllegalStateException(
                what + " was called on an event that was recorded while its stream captured");
          }
          call.accept(of);
        });
  }

  /** Gives the event to a call of the driver, during which it stays. */
  void use(String what, Consumer<CUevent> call) {
    if (!lease.retain()) {
      throw new IllegalStateException(what + " was called with a closed event");
    }
    try {
      call.accept(event);
    } finally {
      lease.release();
    }
  }
}
