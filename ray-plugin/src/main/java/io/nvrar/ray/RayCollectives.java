package io.nvrar.ray;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.ray.api.ActorHandle;
import java.util.List;

/**
 * Named groups of Ray actors, modelled on Python's {@code ray.util.collective}. The driver calls
 * {@link #createGroup}; the actors call the other methods. Thread-safe.
 *
 * <p>The calling actor is found by the calling thread. On a cluster any thread of the actor's
 * process may call; in Ray's local mode only the thread that runs the actor's task may.
 */
public final class RayCollectives {

  private RayCollectives() {}

  /**
   * Creates a group of actors and waits until all have joined. If it fails, it undoes what it did,
   * and the name can be used again. An interrupt of the thread is a failure, and the flag is kept.
   * It logs a warning, once in a process, if this driver lacks options that Ray needs, or has
   * started a Ray head of its own.
   *
   * @param name the group's name, not blank; an actor is in at most one live group of a name
   * @param actorsInRankOrder the members, 1 to 512 different actors (on GPUs at most 64, on up to 8
   *     hosts); an actor's index is its rank. The actors of a host have to be consecutive, as those
   *     of a {@link RayActorGroup} are
   * @param config the configuration of all members. This call takes at most {@link
   *     GroupConfig#joinTimeout} plus {@value GroupCreation#MARGIN_SECONDS} s for tasks to reach
   *     their actors, and if it fails, another {@value GroupCreation#UNDO_SECONDS} s to undo what
   *     was done
   * @return the driver's handle; close it to destroy the group
   * @throws io.nvrar.CollectiveException if an actor is dead, or could not join: the failure that
   *     best explains the others, with the others suppressed; or if the thread was interrupted
   * @throws IllegalArgumentException if the name is blank, or the list of actors is empty, too
   *     long, or contains an actor twice or an actor of a class that is no {@link CollectiveActor}
   */
  public static RayCollectiveGroup createGroup(
      String name,
      List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder,
      GroupConfig config) {
    return new GroupCreation(name, actorsInRankOrder, config).run();
  }

  /** {@link #createGroup(String, List, GroupConfig)} with the default configuration. */
  public static RayCollectiveGroup createGroup(
      String name, List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder) {
    return createGroup(name, actorsInRankOrder, GroupConfig.defaults());
  }

  /**
   * The calling actor's member of a group. The lookup is not free: keep the result in a variable in
   * a hot loop.
   *
   * <p>A failed group is still found, and its calls throw the failure, until the driver closes it
   * or the actor joins another group of the same name. If the driver is lost, the member frees its
   * memory by itself. An actor keeps the last {@value GroupRegistry#FAILED_KEPT} failed groups that
   * were not closed: when it joins another group, older ones are closed and forgotten.
   *
   * @throws IllegalArgumentException if the actor is in no group of that name; the message lists
   *     those it is in
   * @throws IllegalStateException if the caller is not an actor
   */
  public static CollectiveGroup group(String name) {
    return GroupRegistry.INSTANCE.get(CurrentActor.id(), name);
  }

  /**
   * Whether the calling actor is a member of a group of that name which was not closed or
   * destroyed.
   */
  public static boolean isGroupInitialized(String name) {
    return GroupRegistry.INSTANCE.find(CurrentActor.id(), name) != null;
  }

  /** The calling actor's rank in a group; -1 if the actor is in no group of that name. */
  public static int rank(String name) {
    CollectiveGroup group = GroupRegistry.INSTANCE.find(CurrentActor.id(), name);
    return group == null ? -1 : group.rank();
  }

  /**
   * The number of members of a group of the calling actor; -1 if the actor is in no group of that
   * name.
   */
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
