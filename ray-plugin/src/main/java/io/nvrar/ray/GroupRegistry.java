package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.internal.Daemon;
import io.nvrar.internal.wire.Crypto;
import io.ray.api.id.ActorId;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadFactory;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The groups of this process's actors, by (actor, name). The registry lives as long as the process.
 * On a cluster a process holds one actor; in Ray's local mode it holds all of them. Thread-safe.
 */
final class GroupRegistry {

  private static final Logger LOG = LoggerFactory.getLogger(GroupRegistry.class);

  static final GroupRegistry INSTANCE = new GroupRegistry();

  /** How many failed groups of an actor are kept, so that their calls throw the failure. */
  static final int FAILED_KEPT = 8;

  /** How many tickets are kept in {@link #left}. */
  static final int LEFT_KEPT = 64;

  /** In the order of the joins. */
  private final Map<Key, Membership> memberships = new LinkedHashMap<>();

  /** The tickets of members that were told to leave before they had joined, oldest first. */
  private final Set<LeftTicket> left = new LinkedHashSet<>();

  private final ThreadFactory closers;

  GroupRegistry() {
    this(work -> Daemon.of("nvrar-forget", work));
  }

  /**
   * @param closers creates the threads that close forgotten groups
   */
  GroupRegistry(ThreadFactory closers) {
    this.closers = closers;
  }

  /**
   * Joins and registers the member. A closed or failed group of the same name is replaced; a live
   * one causes an {@link IllegalStateException}.
   *
   * @param ticket its bytes, as Ray passes them
   * @param joiner joins the group: blocks until it is complete, or throws
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
        hasLeft = left.remove(LeftTicket.of(actor, ticket));
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

  /**
   * Reserves the name for {@code joining}. Returns the group that had the name, which the caller
   * closes.
   */
  private @Nullable CollectiveGroup reserve(Key key, Membership joining) {
    while (true) {
      Membership present;
      synchronized (this) {
        if (left.remove(new LeftTicket(key.actor, joining.digest))) {
          throw gaveUp(key.name);
        }
        present = memberships.get(key);
        if (present == null) {
          memberships.put(key, joining);
          return null;
        }
      }
      // Not under the lock: makesRoom may block until the group knows why its last call has failed.
      if (!present.makesRoom()) {
        throw new IllegalStateException(
            String.format(
                Locale.ROOT,
                "this actor is already a member of a group named '%s': destroy that one first or take another name",
                key.name));
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
   * Forgets an actor's closed groups, which the driver may have closed, and the oldest of its
   * failed groups. Otherwise they would accumulate.
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
      // On a thread of its own, so that a join does not wait for GPU work of a failed group.
      closers.newThread(() -> spent.forEach(GroupRegistry::closeForgotten)).start();
    } catch (OutOfMemoryError e) { // no thread could be started; the next join tries again
      LOG.warn("{} ended groups are not closed yet: {}", spent.size(), e.getMessage());
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
      LOG.warn("An ended group could not be closed", e);
    }
  }

  /** The actor's member of a group, or null if there is none or it was closed. */
  synchronized @Nullable CollectiveGroup find(ActorId actor, String name) {
    Membership membership = memberships.get(new Key(actor, name));
    CollectiveGroup group = membership == null ? null : membership.group;
    return group == null || group.isClosed() ? null : group;
  }

  /**
   * The actor's member of a group. Throws an {@link IllegalArgumentException} that lists the known
   * names if there is none.
   */
  CollectiveGroup get(ActorId actor, String name) {
    CollectiveGroup group = find(actor, name);
    if (group == null) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "this actor is not a member of a group named '%s'; its groups are: %s",
              name,
              names(actor)));
    }
    return group;
  }

  /** Closes the actor's member of a group and forgets it. */
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
   * Aborts and closes the member that joined with this ticket. If an actor runs several tasks
   * concurrently, this task may run before or during the join; the join then fails when it
   * completes.
   *
   * @return whether the member had joined
   */
  boolean leave(ActorId actor, String name, byte[] ticket) {
    CollectiveGroup group;
    synchronized (this) {
      Key key = new Key(actor, name);
      Membership present = memberships.get(key);
      if (present == null || present.group == null || !present.digest.equals(digestOf(ticket))) {
        left.add(LeftTicket.of(actor, ticket));
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
    group.abort("the driver gave up the group");
    group.close();
  }

  private static CollectiveException gaveUp(String name) {
    return new CollectiveException(
        String.format(
            Locale.ROOT, "the driver gave up group '%s' before this actor had joined it", name));
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

  /** By what a ticket is known here, for a ticket has its group's secret. */
  private static ByteBuffer digestOf(byte[] ticket) {
    return ByteBuffer.wrap(Crypto.sha256().digest(ticket));
  }

  /**
   * The actor is part of the key because all actors of a group share one process in Ray's local
   * mode.
   */
  private record LeftTicket(ActorId actor, ByteBuffer digest) {
    static LeftTicket of(ActorId actor, byte[] ticket) {
      return new LeftTicket(actor, digestOf(ticket));
    }
  }

  /** A member, or the reservation of one that is joining. */
  private static final class Membership {
    final ByteBuffer digest;

    /** Written once, under the registry's lock. */
    volatile @Nullable CollectiveGroup group;

    Membership(byte[] ticket) {
      digest = digestOf(ticket);
    }

    boolean isClosed() {
      CollectiveGroup joined = group;
      return joined != null && joined.isClosed();
    }

    /**
     * Unlike {@code failure()}, this does not wait for the reason and does not fix the failure that
     * other callers see.
     */
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
        return joined.isClosed(); // closed since the check above
      }
    }
  }
}
