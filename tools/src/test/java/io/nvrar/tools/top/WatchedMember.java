package io.nvrar.tools.top;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.time.Duration;
import java.util.Base64;

/**
 * A member as a process of its own. Arguments: {@code create} or a ticket, and the rank. Makes
 * calls until a line comes on its standard input, then none until the next line, then closes.
 */
final class WatchedMember {
  static final int ELEMENTS = 1024;

  private WatchedMember() {}

  public static void main(String[] args) throws Exception {
    GroupTicket ticket;
    if (args[0].equals("create")) {
      GroupConfig config =
          GroupConfig.builder().backend(Backend.CPU).timeout(Duration.ofSeconds(60)).build();
      ticket = Groups.createTicket("watched", 2, config, "127.0.0.1");
      System.out.println("TICKET " + Base64.getEncoder().encodeToString(ticket.toBytes()));
    } else {
      ticket = GroupTicket.of(Base64.getDecoder().decode(args[0]));
    }
    try (CollectiveGroup group = Groups.join(ticket, Integer.parseInt(args[1]));
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, ELEMENTS)) {
      System.out.println("JOINED");
      while (System.in.available() == 0) {
        group.allReduce(buffer);
        Thread.sleep(1);
      }
      readLine();
      System.out.println("PAUSED");
      readLine();
    }
  }

  private static void readLine() throws IOException {
    for (int c = System.in.read(); c != '\n' && c != -1; c = System.in.read()) {}
  }
}
