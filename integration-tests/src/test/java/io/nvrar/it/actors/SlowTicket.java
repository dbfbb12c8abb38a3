package io.nvrar.it.actors;

import io.nvrar.ray.CollectiveActor;

/** Takes a moment to make a ticket, so that a driver waits for it. */
public class SlowTicket implements CollectiveActor {

  private static final int MILLIS = 100;

  @Override
  public byte[] nvrarCreateTicket(String name, int worldSize, byte[] config) {
    try {
      Thread.sleep(MILLIS);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
    return CollectiveActor.super.nvrarCreateTicket(name, worldSize, config);
  }
}
