package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.ray.api.id.ActorId;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The groups of this process's actors, by (actor, name); it lives as long as the process. On a
 * cluster a process holds one actor; in Ray's local mode it holds all of them. Safe for use by many
 * threads.
 */
final class GroupRegistry {

  static final GroupRegistry INSTANCE = new GroupRegistry();

  private final Map<Key, Membership> memberships = new HashMap<>();

  GroupRegistry() {}

  /**
   * Joins and keeps the member. A closed or failed group of the name makes room; a live one is an
   * {@link IllegalStateException}.
   *
   * @param joiner blocks until the group stands, or throws
   */
  void join(ActorId actor, String name, byte[] ticket, Supplier<CollectiveGroup> joiner) {
    Key key = new Key(actor, name);
    Membership joining = new Membership(ticket);
    CollectiveGroup old = reserve(key, joining);
    try {
      if (old != null) {
        old.close();
      }
      CollectiveGroup group = joiner.get();
      synchronized (this) {
        joining.group = group;
      }
    } catch (RuntimeException | Error e) {
      synchronized (this) {
        memberships.remove(key, joining);
      }
      throw e;
    }
  }

  private synchronized @Nullable CollectiveGroup reserve(Key key, Membership joining) {
    Membership present = memberships.get(key);
    if (present != null && !present.makesRoom()) {
      throw new IllegalStateException(
          "this actor is already a member of a group named '%s': destroy that one first or take another name"
              .formatted(key.name));
    }
    // Groups that the driver destroyed are forgotten here, or they would pile up.
    memberships.values().removeIf(Membership::isClosed);
    memberships.put(key, joining);
    return present == null ? null : present.group;
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
   * Ends the member that joined by this ticket, if there is one.
   *
   * @return whether there was
   */
  boolean leave(ActorId actor, String name, byte[] ticket) {
    CollectiveGroup group;
    synchronized (this) {
      Key key = new Key(actor, name);
      Membership present = memberships.get(key);
      if (present == null || present.group == null || !Arrays.equals(present.ticket, ticket)) {
        return false;
      }
      memberships.remove(key);
      group = present.group;
    }
    group.abort("the driver gave the group up");
    group.close();
    return true;
  }

  private synchronized String names(ActorId actor) {
    TreeSet<String> names = new TreeSet<>();
    memberships.forEach(
        (key, membership) -> {
          if (key.actor.equals(actor) && membership.group != null && !membership.group.isClosed()) {
            names.add("'" + key.name + "'");
          }
        });
    return names.isEmpty() ? "none" : String.join(", ", names);
  }

  private record Key(ActorId actor, String name) {}

  /** A member, or the place of one that is about to join. */
  private static final class Membership {
    final byte[] ticket;
    @Nullable CollectiveGroup group;

    Membership(byte[] ticket) {
      this.ticket = ticket;
    }

    boolean isClosed() {
      return group != null && group.isClosed();
    }

    boolean makesRoom() {
      if (group == null) {
        return false;
      }
      if (isClosed()) {
        return true;
      }
      try {
        group.throwIfFailed();
        return false;
      } catch (CollectiveException e) {
        return true;
      }
    }
  }
}
