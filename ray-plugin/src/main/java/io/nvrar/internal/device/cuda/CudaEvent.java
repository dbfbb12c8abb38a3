package io.nvrar.internal.device.cuda;

import io.nvrar.Device;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import io.nvrar.internal.device.memory.Lease;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** A GPU event with timing, or one that other code has created and records. */
public final class CudaEvent implements DeviceEvent {
  private static final double NANOS_PER_MILLI = 1e6;
  private static final EnqueuedCalls[] NO_CALLS = {};

  private final CudaDevice device;
  private final GpuContext context;
  private final boolean isForeign;

  /** Replaced under this event's lock. */
  private volatile DriverEvent current;

  private volatile Place place = Place.NONE;

  /** The stream on which it was recorded last. */
  private volatile @Nullable CudaStream stream;

  private enum Place {
    NONE,
    IN_A_CAPTURE,
    ON_A_STREAM
  }

  /** The driver's event and its lifetime. */
  private static final class DriverEvent {
    private final CUevent event;
    private final Lease lease;

    /** How many stages wait for its present place. */
    private final AtomicInteger stages = new AtomicInteger();

    private DriverEvent(CUevent event, Lease lease) {
      this.event = event;
      this.lease = lease;
    }

    /** A stage waits no more: the event may be recorded again. */
    void endStage() {
      stages.decrementAndGet();
      lease.release();
    }

    static DriverEvent create(GpuContext of) {
      CUevent made = new CUevent();
      of.call(
          "cuEventCreate", () -> JCudaDriver.cuEventCreate(made, CUevent_flags.CU_EVENT_DEFAULT));
      return new DriverEvent(
          made, new Lease(() -> of.call("cuEventDestroy", () -> JCudaDriver.cuEventDestroy(made))));
    }
  }

  private CudaEvent(CudaDevice device, DriverEvent event, boolean isForeign) {
    this.device = device;
    this.isForeign = isForeign;
    context = device.context();
    current = event;
  }

  static CudaEvent create(CudaDevice device) {
    return new CudaEvent(device, DriverEvent.create(device.context()), false);
  }

  /** An event that its owner records and destroys. */
  public static CudaEvent foreign(CudaDevice device, CUevent event) {
    CudaEvent wrapper = new CudaEvent(device, new DriverEvent(event, new Lease(() -> {})), true);
    wrapper.place = Place.ON_A_STREAM; // as far as anybody knows here
    return wrapper;
  }

  /**
   * The JCuda object, for users.
   *
   * @param what was called, for the message if the event is closed
   */
  public CUevent jcuda(String what) {
    DriverEvent now = retainCurrent(what);
    now.lease.release();
    return now.event;
  }

  @Override
  public long handle() {
    return Handles.handle(jcuda("handle"));
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public void record(DeviceStream stream) {
    CudaStream on = device.requireStream(stream, "recording an event");
    if (isForeign) {
      throw new UnsupportedOperationException(
          "record was called on an event of other code, which alone records it; record one of createEvent and hand out its handle");
    }
    on.requireUsable("record");
    synchronized (this) {
      Place next = on.isCapturing() ? Place.IN_A_CAPTURE : Place.ON_A_STREAM;
      if (current.stages.get() > 0) {
        recordAnother(on);
      } else {
        use("record", of -> record(of, on));
      }
      place = next;
      this.stream = on;
    }
  }

  // The driver's event loses its place when it is recorded again, but a stage still waits for that
  // place.
  private void recordAnother(CudaStream on) {
    DriverEvent before = current;
    if (before.lease.isClosed()) {
      throw closedException("record");
    }
    DriverEvent another = DriverEvent.create(context);
    try {
      record(another.event, on);
    } catch (RuntimeException e) {
      another.lease.close();
      throw e;
    }
    current = another;
    before.lease.close();
  }

  private static void record(CUevent of, CudaStream on) {
    on.submit("record", "cuEventRecord", queue -> JCudaDriver.cuEventRecord(of, queue));
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
  public CompletionStage<Void> whenDone() {
    DriverEvent now;
    CudaStream on;
    synchronized (this) {
      now = current;
      on = stream;
      requireAskable("whenDone");
      if (!now.lease.retain()) {
        throw closedException("whenDone");
      }
      now.stages.incrementAndGet();
    }
    if (on == null && !isForeign) {
      now.endStage();
      return CompletableFuture.completedStage(null);
    }
    EnqueuedCalls[] calls = on == null ? NO_CALLS : on.carried();
    return device.eventWatch().watch(now.event, now::endStage, calls);
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
  public synchronized void close() {
    current.lease.close();
  }

  // The driver's documentation forbids this, but does not say for how long after the capture.
  private void ask(String what, Consumer<CUevent> call) {
    use(
        what,
        of -> {
          requireAskable(what);
          call.accept(of);
        });
  }

  private void requireAskable(String what) {
    if (place == Place.IN_A_CAPTURE) {
      throw new IllegalStateException(
          what + " was called on an event that was recorded while its stream captured");
    }
  }

  /** Passes the event to a driver call, and keeps it alive during the call. */
  void use(String what, Consumer<CUevent> call) {
    DriverEvent now = retainCurrent(what);
    try {
      call.accept(now.event);
    } finally {
      now.lease.release();
    }
  }

  private DriverEvent retainCurrent(String what) {
    while (true) {
      DriverEvent now = current;
      if (now.lease.retain()) {
        return now;
      }
      if (now == current) {
        throw closedException(what);
      }
      // The event was recorded again concurrently.
    }
  }

  private static IllegalStateException closedException(String what) {
    return new IllegalStateException(what + " was called with a closed event");
  }
}
