package io.nvrar.it.soak;

import io.nvrar.internal.flight.Announcement;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;

/** A worker that forgets a socket and an announcement whenever it becomes rank 1 of a group. */
final class LeakingWorker {
  private LeakingWorker() {}

  public static void main(String[] args) throws IOException {
    List<ServerSocket> forgotten = new ArrayList<>();
    WorkerMain.serve(
        args,
        (ticket, rank, device) -> {
          if (rank == 1) {
            Announcement.of("forgotten", "id", 2, "cpu", rank, "host", "machine", new byte[8]);
            synchronized (forgotten) {
              try {
                forgotten.add(new ServerSocket(0));
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            }
          }
          return Groups.join(ticket, rank, device);
        });
  }
}
