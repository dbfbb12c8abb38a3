package io.nvrar.device.cuda;

import io.nvrar.DeviceStream;
import io.nvrar.device.async.AsyncStream;
import io.nvrar.device.async.EnqueuedCalls;
import org.jspecify.annotations.Nullable;

/** The calls of a group that is none, which fails and closes when a test says so. */
final class RecordedCalls implements EnqueuedCalls {
  volatile @Nullable RuntimeException failure;
  volatile boolean over;
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
    RuntimeException now = failure;
    if (now != null) {
      throw now;
    }
  }

  @Override
  public boolean isOver() {
    return over;
  }
}
