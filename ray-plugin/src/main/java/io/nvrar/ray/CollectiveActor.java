package io.nvrar.ray;

/**
 * The interface of actor classes whose actors can be members of a group. All methods have default
 * implementations, which {@link RayCollectives} calls by Ray tasks; there is nothing to implement.
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
 * <p>Tickets are the bytes of a {@link io.nvrar.standalone.GroupTicket} here, because Ray passes a
 * byte array from one actor to the others as one object that needs no serializer.
 *
 * <p>The method names begin with {@code nvrar} so that they do not collide with the actor's own
 * methods. Each method returns a value, because Ray drops the exception of a task that returns
 * none.
 */
public interface CollectiveActor {

  /**
   * Shows that the actor is running: its constructor has returned.
   *
   * @return always true
   */
  default boolean nvrarReady() {
    return true;
  }

  /**
   * Runs on rank 0. Creates the ticket of a group and opens the rendezvous, which waits in the
   * background for the members.
   *
   * @param name the group's name
   * @param worldSize the number of members
   * @param config the configuration as {@code ConfigCodec} encodes it
   * @return the ticket's bytes, which are an argument of every {@link #nvrarJoin}
   */
  default byte[] nvrarCreateTicket(String name, int worldSize, byte[] config) {
    return ActorSide.createTicket(name, worldSize, config);
  }

  /**
   * Joins the group of a ticket and registers this actor's member under the group's name.
   *
   * @param name the group's name
   * @param ticket the bytes that {@link #nvrarCreateTicket} of rank 0 returned
   * @param rank this actor's rank
   * @return {@code rank}
   */
  default int nvrarJoin(String name, byte[] ticket, int rank) {
    return ActorSide.join(name, ticket, rank);
  }

  /**
   * Undoes {@link #nvrarCreateTicket} and {@link #nvrarJoin} for a ticket, as far as they got. It
   * does not wait for other members and does not affect another group of the same name.
   *
   * @param name the group's name
   * @param ticket the bytes that {@link #nvrarCreateTicket} of rank 0 returned
   * @param rank this actor's rank
   * @return whether this actor had joined
   */
  default boolean nvrarLeave(String name, byte[] ticket, int rank) {
    return ActorSide.leave(name, ticket, rank);
  }
}
