package io.nvrar.ray;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.ray.api.ActorHandle;
import java.util.List;

/**
 * Groups of Ray actors by name, after Python's {@code ray.util.collective}. The driver calls {@link
 * #createGroup}; the other methods are for the methods of the actors. Safe for use by many threads.
 *
 * <p>An actor knows itself by the thread that Ray runs its task on. On a cluster other threads of
 * its process do as well; in Ray's local mode only the task's own.
 */
public final class RayCollectives {

  private RayCollectives() {}

  /**
   * Makes a group of actors and waits until all have joined. On failure nothing stays behind, and
   * the name can be used again.
   *
   * @param name the group's name, not blank; an actor has at most one live group of a name
   * @param actorsInRankOrder the members, 1 to 8 different actors; index is rank
   * @param config what the members agree on; {@link GroupConfig#joinTimeout} bounds the joins. This
   *     call takes at most {@value GroupCreation#MARGIN_SECONDS} s more, for tasks to reach their
   *     actors; if it fails, another {@value GroupCreation#UNDO_SECONDS} s, to undo what was done
   * @return the driver's handle; close it to destroy the group
   * @throws io.nvrar.CollectiveException what went wrong in the actors: the most telling of their
   *     failures, with the others suppressed
   * @throws IllegalArgumentException for a bad name or list of actors
   */
  public static RayCollectiveGroup createGroup(
      String name,
      List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder,
      GroupConfig config) {
    return new GroupCreation(name, actorsInRankOrder, config).run();
  }

  /** As {@link #createGroup(String, List, GroupConfig)} with every default. */
  public static RayCollectiveGroup createGroup(
      String name, List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder) {
    return createGroup(name, actorsInRankOrder, GroupConfig.defaults());
  }

  /**
   * The calling actor's member of a group. Keep the result in a variable where nanoseconds count.
   *
   * <p>A group that has failed is still found, and its calls throw the failure, until the driver
   * closes it or the actor joins another of its name. If the driver is lost, the member frees its
   * memory by itself. Of groups that have failed and were not closed an actor remembers the last
   * {@value GroupRegistry#FAILED_KEPT} that it joined: when it joins another group, older ones are
   * closed and forgotten.
   *
   * @throws IllegalArgumentException if the actor is in no group of that name; the message lists
   *     those it is in
   * @throws IllegalStateException if the caller is not an actor
   */
  public static CollectiveGroup group(String name) {
    return GroupRegistry.INSTANCE.get(CurrentActor.id(), name);
  }

  /** Whether the calling actor is a member of a group of that name that was not destroyed. */
  public static boolean isGroupInitialized(String name) {
    return GroupRegistry.INSTANCE.find(CurrentActor.id(), name) != null;
  }

  /** The calling actor's rank in a group, -1 if it is in none of that name. */
  public static int rank(String name) {
    CollectiveGroup group = GroupRegistry.INSTANCE.find(CurrentActor.id(), name);
    return group == null ? -1 : group.rank();
  }

  /** The number of members of a group of the calling actor, -1 if it is in none of that name. */
  public static int worldSize(String name) {
    CollectiveGroup group = GroupRegistry.INSTANCE.find(CurrentActor.id(), name);
    return group == null ? -1 : group.worldSize();
  }

  /**
   * Closes the calling actor's member of a group and forgets it. Like {@link
   * CollectiveGroup#close}, it waits for the other members to do the same; closing the driver's
   * {@link RayCollectiveGroup} does it for all.
   *
   * @throws IllegalArgumentException if the actor is in no group of that name; the message lists
   *     those it is in
   */
  public static void destroyGroup(String name) {
    GroupRegistry.INSTANCE.destroy(CurrentActor.id(), name);
  }
}
