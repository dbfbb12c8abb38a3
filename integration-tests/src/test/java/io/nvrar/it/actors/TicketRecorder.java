package io.nvrar.it.actors;

import io.nvrar.ray.CollectiveActor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Notes which tickets an actor makes and gets. */
public class TicketRecorder implements CollectiveActor {

  private final List<String> notes = new ArrayList<>();

  @Override
  public byte[] nvrarCreateTicket(String name, int worldSize, byte[] config) {
    byte[] ticket = CollectiveActor.super.nvrarCreateTicket(name, worldSize, config);
    notes.add("made " + Arrays.hashCode(ticket));
    return ticket;
  }

  @Override
  public int nvrarJoin(String name, byte[] ticket, int rank) {
    notes.add("got " + Arrays.hashCode(ticket));
    return CollectiveActor.super.nvrarJoin(name, ticket, rank);
  }

  public String notes() {
    return String.join(", ", notes);
  }
}
