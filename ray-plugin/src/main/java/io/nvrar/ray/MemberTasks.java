package io.nvrar.ray;

import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import java.util.ArrayList;
import java.util.List;

/**
 * Starts the tasks of {@link CollectiveActor} from the driver. A ticket stays the reference to its
 * bytes, which Ray passes from rank 0 to the members and the driver reads once. Each method is
 * generic, because a method reference needs a name for the actor's type.
 */
final class MemberTasks {

  private MemberTasks() {}

  static <A extends CollectiveActor> ObjectRef<byte[]> createTicket(
      ActorHandle<A> actor, String name, int worldSize, byte[] config) {
    return actor.task(A::nvrarCreateTicket, name, worldSize, config).remote();
  }

  static <A extends CollectiveActor> ObjectRef<Integer> join(
      ActorHandle<A> actor, String name, ObjectRef<byte[]> ticket, int rank) {
    return actor.task(A::nvrarJoin, name, ticket, rank).remote();
  }

  /** Makes all members leave. An actor that is running another task leaves after it. */
  static List<ObjectRef<Boolean>> leave(
      List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder,
      String name,
      ObjectRef<byte[]> ticket) {
    List<ObjectRef<Boolean>> left = new ArrayList<>();
    for (int rank = 0; rank < actorsInRankOrder.size(); rank++) {
      left.add(leave(actorsInRankOrder.get(rank), name, ticket, rank));
    }
    return left;
  }

  private static <A extends CollectiveActor> ObjectRef<Boolean> leave(
      ActorHandle<A> actor, String name, ObjectRef<byte[]> ticket, int rank) {
    return actor.task(A::nvrarLeave, name, ticket, rank).remote();
  }
}
