package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.standalone.GroupObserver;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * The driver's handle of a group of actors. It communicates with the members over the group's
 * control channel, not by Ray tasks, which would queue behind an actor that waits in a collective.
 * Thread-safe.
 *
 * <p>If the driver's process dies, the members' calls throw a {@link CollectiveException}.
 */
public final class RayCollectiveGroup implements AutoCloseable {

  /** How long closing a failed group waits for the members to leave. A busy member leaves later. */
  private static final int LEAVE_MILLIS = 1_000;

  private final GroupObserver observer;

  /** Kept because Ray ends an actor when its last handle becomes garbage. */
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

  /** Why the group failed; null if it has not, or has ended in order. */
  public @Nullable CollectiveException failure() {
    return observer.failure();
  }

  /**
   * Aborts the group for all members: running calls end and throw. Does not block.
   *
   * @param reason one clause for the members' messages
   */
  public void abort(String reason) {
    observer.abort(reason);
  }

  /**
   * Destroys the group: all members close in order. Works while actors wait in a collective. Takes
   * at most the group's join timeout, plus 5 s if members or connections do not end by themselves.
   * Idempotent. The actors stay alive. An interrupt does not shorten it.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      observer.destroy();
      if (observer.failure() != null && Ray.isInitialized()) {
        // A failed group receives no messages any more, so its members free their memory by a Ray
        // task.
        List<ObjectRef<Boolean>> left = MemberTasks.leave(actors, name(), ticket);
        Ray.wait(left, left.size(), LEAVE_MILLIS);
      }
    }
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT, "RayCollectiveGroup[name=%s, worldSize=%d]", name(), worldSize());
  }
}
