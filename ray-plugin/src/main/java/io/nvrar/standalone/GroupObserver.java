package io.nvrar.standalone;

import io.nvrar.CollectiveException;
import org.jspecify.annotations.Nullable;

/**
 * Observes a group from a process that is not a member, such as a Ray driver. It learns of failures
 * and can abort or destroy the group, even while the members are blocked in a collective.
 * Thread-safe.
 *
 * <p>If the observer's process ends without {@link #close} or {@link #destroy}, the group fails:
 * the members' calls throw a {@link CollectiveException} that names the lost driver.
 */
public interface GroupObserver extends AutoCloseable {

  /** The group's name. */
  String name();

  /** The number of members. */
  int worldSize();

  /**
   * Why the group failed.
   *
   * @return a new exception at each call; null while the group has not failed, and after an orderly
   *     end
   */
  @Nullable CollectiveException failure();

  /**
   * Aborts the group for all members: running calls end and throw, later calls throw at once. Never
   * blocks.
   *
   * @param reason one clause for the members' messages
   */
  void abort(String reason);

  /**
   * Asks all members to close in order and waits until they have, at most the join timeout. A call
   * that all members have entered still completes. A group that does not close in that time is
   * aborted. Closing the connection takes at most another 4 s. Idempotent. Members may still call
   * {@code close()}, which then does nothing. An interrupt does not shorten it; the thread's
   * interrupt flag is kept.
   */
  void destroy();

  /**
   * Stops observing, within 2 s. The group is not affected. Idempotent. An interrupt does not
   * shorten it; the thread's interrupt flag is kept.
   */
  @Override
  void close();
}
