package io.nvrar.internal.device.async;

import org.jspecify.annotations.Nullable;

/**
 * A group's calls on streams that execute them after they have returned ({@link AsyncStream}). For
 * use by any thread; allocates nothing unless it throws.
 */
public interface EnqueuedCalls {

  /**
   * Begins a launch of a graph that holds such calls; {@link #leave} must follow if this returns. A
   * group that ends in order waits for what is launched.
   *
   * @param on where it is launched
   * @throws io.nvrar.CollectiveException if the group has failed
   * @throws IllegalStateException if the group is closed
   */
  void enter(AsyncStream on);

  /** Ends what {@link #enter} began. */
  void leave();

  /**
   * Throws the group's failure, also one that a call on a device has met. Waits to hear why, where
   * that is not known yet.
   */
  void throwIfFailed();

  /** Whether {@link #throwIfFailed} would wait now; false again after as long as that would. */
  boolean awaitsReason();

  /**
   * What {@link #throwIfFailed} would throw. Never waits.
   *
   * @return null while nothing has failed, and where {@link #awaitsReason}
   */
  @Nullable RuntimeException failure();

  /** Whether the group makes no more calls. */
  boolean isOver();
}
