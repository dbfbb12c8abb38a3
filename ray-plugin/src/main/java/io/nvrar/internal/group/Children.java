package io.nvrar.internal.group;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The live members of this process that were split from one of its members. The driver knows only
 * the first group of such a tree, so its actions, and its loss, are propagated to these members.
 * Thread-safe.
 */
final class Children {
  private final GroupSpec parent;

  /** Each child with its group's members by their rank in the parent. Guarded by this object. */
  private final Map<Member, int[]> alive = new HashMap<>();

  // Each is repeated until it has reached all, because an error may interrupt it.
  private @Nullable Failure end;
  private boolean endIsTold;
  private @Nullable Failure parentFailure;
  private boolean parentFailureIsTold;

  private boolean destroyed;
  private boolean isDriven;
  private boolean isUnheard;

  Children(GroupSpec parent) {
    this.parent = parent;
  }

  /**
   * Adds a child, from its join on.
   *
   * @param ranks its group's members by their rank in the parent, in the order of their new ranks
   */
  synchronized void add(Member child, int[] ranks) {
    alive.put(child, ranks);
    if (isDriven) {
      child.setDriven();
    }
    if (isUnheard) {
      child.unheard();
    }
    if (end != null) {
      end(child, ranks, end);
    } else if (parentFailure != null) {
      end(child, ranks, parentFailure);
    } else if (destroyed) {
      child.destroy();
    }
  }

  synchronized void remove(Member child) {
    alive.remove(child);
  }

  /**
   * Fails all present and future children: the parent's driver has ended the group or cannot be
   * reached any more.
   */
  synchronized void end(Failure reason) {
    if (end == null) {
      end = reason;
    }
    if (!endIsTold) {
      Failure first = end;
      Map.copyOf(alive).forEach((child, ranks) -> end(child, ranks, first));
      endIsTold = true;
    }
  }

  /**
   * Handles the failure of the parent. Groups that are still being created, now or later, fail with
   * it, because a member that learned of the failure first does not join; groups that exist are not
   * affected.
   */
  synchronized void parentFailed(Failure reason) {
    if (parentFailure == null) {
      parentFailure = reason;
    }
    if (!parentFailureIsTold) {
      Failure first = parentFailure;
      Map.copyOf(alive)
          .forEach(
              (child, ranks) -> {
                if (!child.isReady()) {
                  end(child, ranks, first);
                }
              });
      parentFailureIsTold = true;
    }
  }

  private void end(Member child, int[] ranks, Failure reason) {
    child.endWithParent(
        reason.forGroup(
            ranks,
            String.format(
                Locale.ROOT,
                "%s ended with %s: %s",
                child.label(),
                parent.label(),
                reason.message())));
  }

  /** {@link Member#setDriven} for all present and future children. */
  synchronized void setDriven() {
    isDriven = true;
    alive.keySet().forEach(Member::setDriven);
  }

  /**
   * {@link Member#unheard} for all present and future children: they stay alive unless they fail.
   */
  synchronized void unheard() {
    isUnheard = true;
    alive.keySet().forEach(Member::unheard);
  }

  /** Makes all present and future children close in order. */
  synchronized void destroy() {
    destroyed = true;
    Map.copyOf(alive).keySet().forEach(Member::destroy);
  }
}
