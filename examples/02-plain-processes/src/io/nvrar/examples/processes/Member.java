package io.nvrar.examples.processes;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.Base64;
import java.util.Locale;

/** One member's process. Reads the ticket from its standard input, as a line of Base64. */
final class Member {

  private final int rank;
  private final int worldSize;
  private final Backend backend;

  Member(int rank, int worldSize, Backend backend) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.backend = backend;
  }

  /**
   * Rank 0 creates the ticket, because the rendezvous is in its process; then all members join with
   * it.
   */
  void run(BufferedReader in, PrintWriter out) throws IOException {
    if (rank == 0) {
      GroupConfig config = GroupConfig.builder().backend(backend).build();
      GroupTicket ticket = Groups.createTicket("processes", worldSize, config, "127.0.0.1");
      out.println(Base64.getEncoder().encodeToString(ticket.toBytes()));
    }
    String line = in.readLine();
    if (line == null) {
      throw new CollectiveException("the launching process ended before rank " + rank + " joined");
    }
    // On GPUs, rank r uses GPU r; on the CPU the ordinal is ignored.
    try (CollectiveGroup group =
            Groups.join(GroupTicket.of(Base64.getDecoder().decode(line)), rank, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      buffer.copyFrom(new float[] {rank + 1});
      group.allReduce(buffer);
      float[] sum = new float[1];
      buffer.copyTo(sum);
      out.printf(
          Locale.ROOT,
          "rank %d of %d on %s (%s), process %d: gave %d, the sum is %.0f%n",
          rank,
          worldSize,
          group.device(),
          group.backend(),
          ProcessHandle.current().pid(),
          rank + 1,
          sum[0]);
    }
  }
}
