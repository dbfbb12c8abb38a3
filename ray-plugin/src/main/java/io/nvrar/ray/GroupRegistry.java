package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.ray.api.id.ActorId;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadFactory;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The groups of this process's actors, by (actor, name); it lives as long as the process. On a
 * cluster a process holds one actor; in Ray's local mode it holds all of them. Safe for use by many
 * threads.
 */
final class GroupRegistry {

  private static final Logger LOG = LoggerFactory.getLogger(GroupRegistry.class);

  static final GroupRegistry INSTANCE = new GroupRegistry();

  /** So many failed groups of an actor are remembered, so that their calls throw the failure. */
  static final int FAILED_KEPT = 8;

  /** So many tickets are remembered whose members left before they had joined. */
  static final int LEFT_KEPT = 64;

  /** In the order of the joins. */
  private final Map<Key, Membership> memberships = new LinkedHashMap<>();

  /** The tickets of members that have left before they had joined, oldest first. */
  private final Set<LeftTicket> left = new LinkedHashSet<>();

  private final ThreadFactory closers;

  GroupRegistry() {
    this(GroupRegistry::daemon);
  }

  /**
   * @param closers of the threads that close what is forgotten
   */
  GroupRegistry(ThreadFactory closers) {
    this.closers = closers;
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "nvrar-forget");
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Joins and keeps the member. A closed or failed group of the name makes room; a live one is an
   * {@link IllegalStateException}.
   *
   * @param joiner blocks until the group stands, or throws
   * @throws CollectiveException if this member was told to leave before the join was over
   */
  void join(ActorId actor, String name, byte[] ticket, Supplier<CollectiveGroup> joiner) {
    Key key = new Key(actor, name);
    Membership joining = new Membership(ticket);
    CollectiveGroup old = reserve(key, joining);
    CollectiveGroup group;
    boolean hasLeft;
    try {
      forgetSpent(key.actor);
      if (old != null) {
        old.close();
      }
      group = joiner.get();
      synchronized (this) {
        hasLeft = left.remove(new LeftTicket(actor, ticket));
        if (hasLeft) {
          memberships.remove(key, joining);
        } else {
          joining.group = group;
        }
      }
    } catch (RuntimeException | Error e) {
      synchronized (this) {
        memberships.remove(key, joining);
      }
      throw e;
    }
    if (hasLeft) {
      giveUp(group);
      throw gaveUp(name);
    }
  }

  /** Takes the place of the name; what had it and is to be closed. */
  private @Nullable CollectiveGroup reserve(Key key, Membership joining) {
    while (true) {
      Membership present;
      synchronized (this) {
        if (left.remove(new LeftTicket(key.actor, joining.ticket))) {
          throw gaveUp(key.name);
        }
        present = memberships.get(key);
        if (present == null) {
          memberships.put(key, joining);
          return null;
        }
      }
      // Without the lock: a group may wait to learn why its last call has failed.
      if (!present.makesRoom()) {
        throw new IllegalStateException(
            "this actor is already a member of a group named '%s': destroy that one first or take another name"
                .formatted(key.name));
      }
      synchronized (this) {
        if (memberships.remove(key, present)) {
          memberships.put(key, joining);
          return present.group;
        }
      }
    }
  }

  /**
   * Forgets an actor's groups that are closed, as by the driver, and the oldest of those that have
   * failed, or they would pile up.
   */
  private void forgetSpent(ActorId actor) {
    List<Membership> present = new ArrayList<>();
    synchronized (this) {
      memberships.forEach(
          (key, membership) -> {
            if (key.actor.equals(actor)) {
              present.add(membership);
            }
          });
    }
    List<Membership> spent =
        new ArrayList<>(present.stream().filter(Membership::isClosed).toList());
    List<Membership> failed = present.stream().filter(Membership::hasFailed).toList();
    spent.addAll(failed.subList(0, Math.max(0, failed.size() - FAILED_KEPT)));
    if (spent.isEmpty()) {
      return;
    }
    try {
      // Elsewhere: what a GPU still does for a failed group, nobody who joins another waits for.
      closers.newThread(() -> spent.forEach(GroupRegistry::closeForgotten)).start();
    } catch (OutOfMemoryError e) { // no room for a thread; the next join looks again
      LOG.warn("{} groups that are over are not closed yet: {}", spent.size(), e.getMessage());
      return;
    }
    synchronized (this) {
      memberships.values().removeAll(spent);
    }
  }

  private static void closeForgotten(Membership spent) {
    try {
      spent.close();
    } catch (RuntimeException | Error e) {
      LOG.warn("A group that is over could not be closed", e);
    }
  }

  /** The member under a name, or null if there is none or it was closed. */
  synchronized @Nullable CollectiveGroup find(ActorId actor, String name) {
    Membership membership = memberships.get(new Key(actor, name));
    CollectiveGroup group = membership == null ? null : membership.group;
    return group == null || group.isClosed() ? null : group;
  }

  /** The member under a name; an {@link IllegalArgumentException} that lists the known names. */
  CollectiveGroup get(ActorId actor, String name) {
    CollectiveGroup group = find(actor, name);
    if (group == null) {
      throw new IllegalArgumentException(
          "this actor is not a member of a group named '%s'; its groups are: %s"
              .formatted(name, names(actor)));
    }
    return group;
  }

  /** Closes the member under a name and forgets it. */
  void destroy(ActorId actor, String name) {
    CollectiveGroup group = get(actor, name);
    group.close();
    synchronized (this) {
      Key key = new Key(actor, name);
      Membership present = memberships.get(key);
      if (present != null && present.group == group) {
        memberships.remove(key);
      }
    }
  }

  /**
   * Ends the member that joined by this ticket. Where actors run several tasks at once this may
   * come before the join, or in its midst: then the join fails when it is over.
   *
   * @return whether it had joined
   */
  boolean leave(ActorId actor, String name, byte[] ticket) {
    CollectiveGroup group;
    synchronized (this) {
      Key key = new Key(actor, name);
      Membership present = memberships.get(key);
      if (present == null || present.group == null || !Arrays.equals(present.ticket, ticket)) {
        left.add(new LeftTicket(actor, ticket));
        if (left.size() > LEFT_KEPT) {
          left.remove(left.iterator().next());
        }
        return false;
      }
      memberships.remove(key);
      group = present.group;
    }
    giveUp(group);
    return true;
  }

  private static void giveUp(CollectiveGroup group) {
    group.abort("the driver gave the group up");
    group.close();
  }

  private static CollectiveException gaveUp(String name) {
    return new CollectiveException(
        "the driver gave group '%s' up before this actor had joined it".formatted(name));
  }

  private synchronized String names(ActorId actor) {
    TreeSet<String> names = new TreeSet<>();
    memberships.forEach(
        (key, membership) -> {
          if (key.actor.equals(actor) && membership.group != null && !membership.isClosed()) {
            names.add("'" + key.name + "'");
          }
        });
    return names.isEmpty() ? "none" : String.join(", ", names);
  }

  private record Key(ActorId actor, String name) {}

  /** An actor's own: in Ray's local mode all actors of a group are in one process. */
  private record LeftTicket(ActorId actor, ByteBuffer ticket) {
    LeftTicket(ActorId actor, byte[] ticket) {
      this(actor, ByteBuffer.wrap(ticket));
    }
  }

  /** A member, or the place of one that is about to join. */
  private static final class Membership {
    final byte[] ticket;

    /** Written once, under the registry's lock. */
    volatile @Nullable CollectiveGroup group;

    Membership(byte[] ticket) {
      this.ticket = ticket;
    }

    boolean isClosed() {
      CollectiveGroup joined = group;
      return joined != null && joined.isClosed();
    }

    /** Without waiting to learn why, and without what {@code failure()} would decide for others. */
    boolean hasFailed() {
      CollectiveGroup joined = group;
      return joined != null && !joined.isClosed() && !joined.health().healthy();
    }

    void close() {
      CollectiveGroup joined = group;
      if (joined != null) {
        joined.close();
      }
    }

    boolean makesRoom() {
      CollectiveGroup joined = group;
      if (joined == null) {
        return false;
      }
      if (joined.isClosed()) {
        return true;
      }
      try {
        joined.throwIfFailed();
        return false;
      } catch (CollectiveException e) {
        return true;
      } catch (IllegalStateException e) {
        return joined.isClosed(); // in this moment
      }
    }
  }
}
