package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.standalone.GroupObserver;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * The driver's handle of a group of actors. It speaks to the members by the group's control
 * channel, not by Ray tasks, which would queue behind an actor that waits in a collective. Safe for
 * use by many threads.
 *
 * <p>If the driver's process dies, the members' calls end with a {@link CollectiveException}.
 */
public final class RayCollectiveGroup implements AutoCloseable {

  /** How long closing a failed group waits; a member that is busy leaves it when it is not. */
  private static final int LEAVE_MILLIS = 1_000;

  private final GroupObserver observer;

  /** Ray ends an actor when its last handle is garbage. */
  private final List<ActorHandle<? extends CollectiveActor>> actors;

  private final ObjectRef<byte[]> ticket;
  private final AtomicBoolean closed = new AtomicBoolean();

  RayCollectiveGroup(
      GroupObserver observer,
      List<ActorHandle<? extends CollectiveActor>> actors,
      ObjectRef<byte[]> ticket) {
    this.observer = observer;
    this.actors = actors;
    this.ticket = ticket;
  }

  /** The name under which the group was created. */
  public String name() {
    return observer.name();
  }

  /** The number of members. */
  public int worldSize() {
    return observer.worldSize();
  }

  /** The members in rank order. */
  public List<ActorHandle<? extends CollectiveActor>> actors() {
    return actors;
  }

  /** What ended the group before its time, or null. */
  public @Nullable CollectiveException failure() {
    return observer.failure();
  }

  /**
   * Ends the group at once for all members: running calls leave and throw. Does not block.
   *
   * @param reason one clause for the members' messages
   */
  public void abort(String reason) {
    observer.abort(reason);
  }

  /**
   * Destroys the group: all members close in order. Works while actors wait in a collective, and
   * takes at most the group's join timeout, and 5 s more where members or connections do not end by
   * themselves. Idempotent. The actors live on.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      observer.destroy();
      if (observer.failure() != null && Ray.isInitialized()) {
        // A failed group hears nothing any more; its members give their memory back by a task.
        List<ObjectRef<Boolean>> left = MemberTasks.leave(actors, name(), ticket);
        Ray.wait(left, left.size(), LEAVE_MILLIS);
      }
    }
  }

  @Override
  public String toString() {
    return "RayCollectiveGroup[name=%s, worldSize=%d]".formatted(name(), worldSize());
  }
}
