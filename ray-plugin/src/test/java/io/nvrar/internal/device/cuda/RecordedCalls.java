package io.nvrar.internal.device.cuda;

import io.nvrar.DeviceStream;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/** The calls of a group that is none, which fails and closes when a test says so. */
final class RecordedCalls implements EnqueuedCalls {
  private static final int LONGEST_WAIT_MILLIS = 5000;

  volatile @Nullable RuntimeException failure;
  volatile @Nullable Error error;
  volatile boolean over;

  /**
   * Whether they have failed and nobody has heard why: who asks waits for that, as a group does.
   */
  volatile boolean isUnexplained;

  int launches;

  /** Makes a call on a stream, as a group does. */
  void callOn(DeviceStream stream) {
    AsyncStream on = (AsyncStream) stream;
    on.carry(this);
    on.release();
  }

  @Override
  public void enter(AsyncStream on) {
    throwIfFailed();
    if (over) {
      throw new IllegalStateException("the group is closed");
    }
    launches++;
  }

  @Override
  public void leave() {}

  @Override
  public void throwIfFailed() {
    for (int i = 0; isUnexplained && i < LONGEST_WAIT_MILLIS; i++) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
    }
    Error broken = error;
    if (broken != null) {
      throw broken;
    }
    RuntimeException now = failure;
    if (now != null) {
      throw now;
    }
  }

  @Override
  public boolean awaitsReason() {
    return isUnexplained;
  }

  @Override
  public @Nullable RuntimeException failure() {
    Error broken = error;
    if (broken != null) {
      throw broken;
    }
    return failure;
  }

  @Override
  public boolean isOver() {
    return over;
  }
}
