package io.nvrar.internal.member;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Ticket;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The members of this process that were split from one of its members, while they live. The driver
 * knows only the first group of such a tree: what it does, and that it can be heard no more, goes
 * on to them. Any thread.
 */
final class Children {
  private final Ticket parent;

  /** With the new group's members by their rank in the parent. Guarded by this object. */
  private final Map<Member, int[]> alive = new HashMap<>();

  private @Nullable Failure end;
  private @Nullable Failure parentFailure;
  private boolean destroyed;
  private boolean isDriven;
  private boolean isUnheard;

  Children(Ticket parent) {
    this.parent = parent;
  }

  /**
   * Takes care of a child from its join on.
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

  /** Fails all, now and later: the parent's driver has said so or cannot be heard any more. */
  synchronized void end(Failure reason) {
    if (end == null) {
      end = reason;
      Map.copyOf(alive).forEach((child, ranks) -> end(child, ranks, reason));
    }
  }

  /**
   * The parent has failed. A group that is still being created ends with it, now and later, because
   * a member that heard of the failure first does not come; one that exists goes on.
   */
  synchronized void parentFailed(Failure reason) {
    if (parentFailure == null) {
      parentFailure = reason;
      Map.copyOf(alive)
          .forEach(
              (child, ranks) -> {
                if (!child.isReady()) {
                  end(child, ranks, reason);
                }
              });
    }
  }

  private void end(Member child, int[] ranks, Failure reason) {
    child.endWithParent(
        reason.among(
            ranks,
            "%s ended with %s: %s".formatted(child.label(), parent.label(), reason.message())));
  }

  /** {@link Member#setDriven} for all, now and later. */
  synchronized void setDriven() {
    isDriven = true;
    alive.keySet().forEach(Member::setDriven);
  }

  /** {@link Member#unheard} for all, now and later: they go on, unless they fail. */
  synchronized void unheard() {
    isUnheard = true;
    alive.keySet().forEach(Member::unheard);
  }

  /** Has all close in order, now and later. */
  synchronized void destroy() {
    destroyed = true;
    Map.copyOf(alive).keySet().forEach(Member::destroy);
  }
}
