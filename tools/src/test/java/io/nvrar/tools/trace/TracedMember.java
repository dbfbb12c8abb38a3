package io.nvrar.tools.trace;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.nio.file.Path;
import java.util.Base64;

/**
 * A member of a group as a process of its own: makes its calls, and rank 0 writes the flight
 * record. Rank 0 creates the group and prints its ticket; the others are given it. Arguments: world
 * size or ticket, rank, calls, file.
 */
final class TracedMember {
  private TracedMember() {}

  public static void main(String[] args) throws Exception {
    int rank = Integer.parseInt(args[1]);
    GroupTicket ticket;
    if (rank == 0) {
      GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
      ticket = Groups.createTicket("traced", Integer.parseInt(args[0]), config, "127.0.0.1");
      System.out.println("TICKET " + Base64.getEncoder().encodeToString(ticket.toBytes()));
    } else {
      ticket = GroupTicket.of(Base64.getDecoder().decode(args[0]));
    }
    try (CollectiveGroup group = Groups.join(ticket, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 256)) {
      for (int call = 0; call < Integer.parseInt(args[2]); call++) {
        if (rank == 1 && call % 10 == 0) {
          Thread.sleep(2); // so that calls wait, and it is known for whom
        }
        group.allReduce(buffer);
      }
      group.barrier();
      if (rank == 0) {
        group.writeFlightRecord(Path.of(args[3]));
      }
      group.barrier();
    }
  }
}
