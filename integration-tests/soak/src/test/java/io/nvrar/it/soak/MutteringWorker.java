package io.nvrar.it.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.standalone.Groups;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;

/** A worker on whose standard error there is half a line, as of a JVM that logs there. */
final class MutteringWorker {
  private MutteringWorker() {}

  public static void main(String[] args) throws IOException {
    WorkerMain.serve(
        args,
        (ticket, rank, device) -> {
          mutter();
          return Groups.join(ticket, rank, device);
        });
  }

  @SuppressWarnings("StreamResourceLeak") // the descriptor stays open
  private static void mutter() {
    try {
      OutputStream error = new FileOutputStream(FileDescriptor.err);
      error.write("[0.100s][info][gc] GC(0) half a ".getBytes(UTF_8));
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
