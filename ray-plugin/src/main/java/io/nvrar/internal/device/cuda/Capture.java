package io.nvrar.internal.device.cuda;

import io.nvrar.internal.binding.CudaCaptureInfo;
import io.nvrar.internal.device.async.EnqueuedCalls;
import java.util.Arrays;
import java.util.stream.Stream;
import jcuda.driver.CUstreamCaptureStatus;
import org.jspecify.annotations.Nullable;

/**
 * A capture begun by {@link CudaStream#record}, with the groups whose calls it records. The driver
 * is asked which capture a stream takes part in, because streams also join a capture by events of
 * the user's own JCuda calls, and several stream objects may stand for one stream of the driver.
 */
final class Capture {
  /** The captures in progress in this process. Copy-on-write: replaced under the class's lock. */
  private static volatile Capture[] open = {};

  private static final ThreadLocal<Question> QUESTION = ThreadLocal.withInitial(Question::new);

  private final long id;

  /** Copy-on-write: replaced under this capture's lock. */
  private volatile EnqueuedCalls[] calls = {};

  private Capture(long id) {
    this.id = id;
  }

  /** Registers the capture that a stream has just begun. */
  static Capture begin(GpuContext context, long stream) {
    Question question = ask(context, stream);
    if (!question.isCapturing()) {
      throw new IllegalStateException("the capture of a stream was ended as soon as it had begun");
    }
    Capture capture = new Capture(question.id[0]);
    synchronized (Capture.class) {
      open = Stream.concat(Arrays.stream(open), Stream.of(capture)).toArray(Capture[]::new);
    }
    return capture;
  }

  /** Ends the capture: no call is added from now on. Idempotent. */
  void end() {
    synchronized (Capture.class) {
      open = Arrays.stream(open).filter(one -> one != this).toArray(Capture[]::new);
    }
  }

  /**
   * Adds a group's calls to the capture that their stream takes part in, if it is one of ours,
   * before they are made. Asks the driver only while such captures are in progress, and allocates
   * only for calls that are new to a capture.
   */
  static void note(GpuContext context, long stream, EnqueuedCalls made) {
    Capture[] now = open;
    if (now.length == 0) {
      return;
    }
    Question question = ask(context, stream);
    Capture of = question.isCapturing() ? find(now, question.id[0]) : null;
    if (of != null) {
      of.add(made);
    }
  }

  /** The groups whose calls were recorded. The array must not be changed. */
  EnqueuedCalls[] calls() {
    return calls;
  }

  private void add(EnqueuedCalls made) {
    if (holds(made)) {
      return;
    }
    synchronized (this) {
      if (!holds(made)) {
        calls = Stream.concat(Arrays.stream(calls), Stream.of(made)).toArray(EnqueuedCalls[]::new);
      }
    }
  }

  private boolean holds(EnqueuedCalls made) {
    for (EnqueuedCalls one : calls) {
      if (one == made) {
        return true;
      }
    }
    return false;
  }

  private static @Nullable Capture find(Capture[] among, long id) {
    for (Capture capture : among) {
      if (capture.id == id) {
        return capture;
      }
    }
    return null;
  }

  private static Question ask(GpuContext context, long stream) {
    Question question = QUESTION.get();
    question.stream = stream;
    context.call("cuStreamGetCaptureInfo", question);
    return question;
  }

  /** The arguments of the query, one object per thread, so that it allocates nothing. */
  private static final class Question implements DriverCall {
    private final int[] status = new int[1];
    private final long[] id = new long[1];
    private long stream;

    @Override
    public int run() {
      return CudaCaptureInfo.ask(stream, status, id);
    }

    boolean isCapturing() {
      return status[0] == CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE;
    }
  }
}
