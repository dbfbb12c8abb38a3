package io.nvrar.standalone;

import io.nvrar.CollectiveException;
import org.jspecify.annotations.Nullable;

/**
 * The view of a group from a process that is no member, such as a Ray driver: it learns of failures
 * and can end the group, also while the members are blocked in a collective. Safe for use by many
 * threads.
 *
 * <p>A process that ends without {@link #close} or {@link #destroy} takes the group with it: the
 * members' calls end with a {@link CollectiveException} that names the lost driver.
 */
public interface GroupObserver extends AutoCloseable {

  /** The group's name. */
  String name();

  /** The number of members. */
  int worldSize();

  /**
   * Why the group failed.
   *
   * @return a new exception at each call; null while nothing failed and after an orderly end
   */
  @Nullable CollectiveException failure();

  /**
   * Ends the group for all members: running calls leave and throw, later ones throw at once. Never
   * blocks.
   *
   * @param reason one clause for the members' messages
   */
  void abort(String reason);

  /**
   * Asks all members to close in order and waits, at most the join timeout, until they have. A call
   * that all members have entered still completes. A group that cannot be closed in that time is
   * aborted. Ending the connection takes at most 4 s more. Idempotent; members may still call
   * {@code close()}, which then does nothing.
   */
  void destroy();

  /** Stops observing, in at most 2 s; the group goes on. Idempotent. */
  @Override
  void close();
}
