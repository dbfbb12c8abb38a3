package io.nvrar.it.soak;

import io.nvrar.CollectiveException;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.standalone.Groups;
import java.io.IOException;

/** A worker in which rank 1 fails without cause, after it has joined like everybody else. */
final class FailingWorker {
  private FailingWorker() {}

  public static void main(String[] args) throws IOException {
    WorkerMain.serve(
        args,
        (ticket, rank, device) -> {
          var group = Groups.join(ticket, rank, device);
          if (rank == 1) {
            group.close();
            throw new CollectiveException("nothing is wrong");
          }
          return group;
        });
  }
}
