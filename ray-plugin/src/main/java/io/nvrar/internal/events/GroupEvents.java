package io.nvrar.internal.events;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.PeerLostException;

/** Records what happens to groups. */
public final class GroupEvents {
  private GroupEvents() {}

  /** A member has joined a group. */
  public static void created(String group, int rank, int worldSize, Backend backend) {
    if (CallEvents.AVAILABLE) {
      GroupCreatedEvent event = new GroupCreatedEvent();
      event.group = group;
      event.rank = rank;
      event.worldSize = worldSize;
      event.backend = backend.name();
      event.commit();
    }
  }

  /** A member has left a group. */
  public static void closed(String group, int rank, int worldSize, Backend backend) {
    if (CallEvents.AVAILABLE) {
      GroupClosedEvent event = new GroupClosedEvent();
      event.group = group;
      event.rank = rank;
      event.worldSize = worldSize;
      event.backend = backend.name();
      event.commit();
    }
  }

  /** A member has learnt that its group has failed. */
  public static void failed(String group, int rank, CollectiveException failure) {
    if (CallEvents.AVAILABLE) {
      GroupFailedEvent event = new GroupFailedEvent();
      event.group = group;
      event.rank = rank;
      event.exception = failure.getClass().getSimpleName();
      event.reason = failure.getMessage();
      event.commit();
      if (failure instanceof PeerLostException lost) {
        PeerLostEvent loss = new PeerLostEvent();
        loss.group = group;
        loss.rank = rank;
        loss.lostRank = lost.lostRank();
        loss.host = lost.host();
        loss.pid = lost.pid();
        loss.commit();
      }
    }
  }
}
