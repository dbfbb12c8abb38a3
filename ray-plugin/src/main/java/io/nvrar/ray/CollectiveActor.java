package io.nvrar.ray;

/**
 * What an actor class implements so that its actors can be members of a group. All methods are
 * defaults that {@link RayCollectives} calls by Ray tasks; there is nothing to write.
 *
 * <pre>{@code
 * public class Shard implements CollectiveActor {
 *   public float step() {
 *     CollectiveGroup group = RayCollectives.group("tp");
 *     ...
 *   }
 * }
 * }</pre>
 *
 * <p>The methods begin with {@code nvrar} so that they cannot meet a method of yours, and each
 * returns a value, because Ray drops the exception of a task that returns none.
 */
public interface CollectiveActor {

  /**
   * Says that the actor runs: its constructor has returned.
   *
   * @return always true
   */
  default boolean nvrarReady() {
    return true;
  }

  /**
   * On rank 0: makes the ticket of a group and waits in the background for those who hold it.
   *
   * @param name the group's name
   * @param worldSize the number of members
   * @param config the configuration as {@code ConfigCodec} encodes it
   * @return the ticket, the argument of every {@link #nvrarJoin}
   */
  default byte[] nvrarCreateTicket(String name, int worldSize, byte[] config) {
    return ActorSide.createTicket(name, worldSize, config);
  }

  /**
   * Joins the group of a ticket and keeps the member under the group's name.
   *
   * @param name the group's name
   * @param ticket what {@link #nvrarCreateTicket} of rank 0 returned
   * @param rank this actor's rank
   * @return {@code rank}
   */
  default int nvrarJoin(String name, byte[] ticket, int rank) {
    return ActorSide.join(name, ticket, rank);
  }

  /**
   * Takes back what {@link #nvrarCreateTicket} and {@link #nvrarJoin} did for a ticket, as far as
   * they got, without waiting for other members and without effect on another group of the same
   * name.
   *
   * @param name the group's name
   * @param ticket what {@link #nvrarCreateTicket} of rank 0 returned
   * @param rank this actor's rank
   * @return whether this actor had joined
   */
  default boolean nvrarLeave(String name, byte[] ticket, int rank) {
    return ActorSide.leave(name, ticket, rank);
  }
}
