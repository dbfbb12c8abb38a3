package io.nvrar.ray;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.ConfigCodec;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.Locale;

/**
 * The implementation of the tasks of {@link CollectiveActor}, which runs in the actor's process.
 */
final class ActorSide {

  private ActorSide() {}

  static byte[] createTicket(String name, int worldSize, byte[] config) {
    refuseRestarted(name, 0);
    GroupConfig own = onTheActorsDevice(ConfigCodec.decode(config));
    return Groups.createTicket(name, worldSize, own, CurrentActor.nodeAddress()).toBytes();
  }

  /** An actor without a GPU from Ray must not use one: the GPU may belong to another actor. */
  private static GroupConfig onTheActorsDevice(GroupConfig config) {
    return config.backend() == Backend.AUTO && ActorGpu.ordinal().isEmpty()
        ? config.toBuilder().backend(Backend.CPU).build()
        : config;
  }

  static int join(String name, byte[] ticket, int rank) {
    refuseRestarted(name, rank);
    GroupRegistry.INSTANCE.join(
        CurrentActor.id(),
        name,
        ticket,
        () -> Groups.joinObserved(GroupTicket.of(ticket), rank, ActorGpu.ordinal().orElse(0)));
    return rank;
  }

  static boolean leave(String name, byte[] ticket, int rank) {
    boolean joined = GroupRegistry.INSTANCE.leave(CurrentActor.id(), name, ticket);
    if (rank == 0) {
      Groups.discardTicket(GroupTicket.of(ticket));
    }
    return joined;
  }

  /**
   * A restarted actor has lost its model and its groups. As a member it would compute wrong results
   * or keep the others waiting.
   */
  private static void refuseRestarted(String name, int rank) {
    if (CurrentActor.wasRestarted()) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "the actor of rank %d was restarted by Ray and cannot join group '%s': create it with maxRestarts 0 and replace it by a new actor when it dies",
              rank,
              name));
    }
  }
}
