package io.nvrar.examples.processes;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.tools.AnswerPipe;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The launcher's side of one member: a JVM like this one, which {@link #close} ends for certain.
 */
final class MemberProcess implements AutoCloseable {

  private static final int GRACE_SECONDS = 5;

  private final int rank;
  private final Process process;
  private final BufferedReader output;

  /** Starts the member's JVM with this JVM's class path and options. */
  MemberProcess(int rank, int worldSize, Backend backend) throws IOException {
    this.rank = rank;
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), "io.nvrar.tools.Main"));
    command.addAll(List.of("hello-processes", "--ranks", Integer.toString(worldSize)));
    command.addAll(List.of("--rank", Integer.toString(rank), "--backend", backend.name()));
    process = AnswerPipe.starting(command).start();
    output = process.inputReader(StandardCharsets.UTF_8);
  }

  /** The member's next answer. */
  String readLine() throws IOException {
    String line = output.readLine();
    if (line == null) {
      throw new CollectiveException("rank " + rank + " ended without a result");
    }
    return line;
  }

  /**
   * Sends the ticket by standard input, because every user of the host can read the arguments of a
   * command.
   */
  void give(String ticket) throws IOException {
    try (BufferedWriter input =
        new BufferedWriter(
            new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8))) {
      input.write(ticket);
      input.newLine();
    }
  }

  /** Waits for the process's end and checks its exit code. */
  void await() throws InterruptedException {
    if (!process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS)) {
      throw new CollectiveException("rank " + rank + " has its result but does not end");
    }
    if (process.exitValue() != 0) {
      throw new CollectiveException("rank " + rank + " ended with code " + process.exitValue());
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
