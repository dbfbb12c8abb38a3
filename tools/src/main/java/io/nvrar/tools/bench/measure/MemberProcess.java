package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.CollectiveException;
import io.nvrar.tools.AnswerPipe;
import io.nvrar.tools.bench.setup.Settings;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The launching side of one member: a JVM that {@link #close} ends for certain. */
final class MemberProcess implements AutoCloseable {
  private static final int GRACE_SECONDS = 10;
  private static final String END = "end of output";

  private final int rank;
  private final Process process;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

  MemberProcess(int rank, Settings settings, Path barrier) throws IOException {
    this.rank = rank;
    process = starting(rank, settings, barrier).start();
    Thread reader = new Thread(this::readAll, "bench-rank-" + rank);
    reader.setDaemon(true);
    reader.start();
  }

  /** Prepares the start of a JVM on this one's class path. */
  static ProcessBuilder starting(int rank, Settings settings, Path barrier) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    for (String option : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
      // Drops options that would distort the measurement: the launcher starts commands without the
      // optimising compiler, and the agent of a debugger or coverage tool would be measured, too.
      if (!option.startsWith("-XX:TieredStopAtLevel")
          && !option.startsWith("-agentlib:")
          && !option.startsWith("-javaagent:")) {
        command.add(option);
      }
    }
    if (settings.sharesGpus()) {
      command.add("-Dnvrar.sharedDevices=true");
    }
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), "io.nvrar.tools.Main"));
    command.addAll(List.of("bench", "--member", Integer.toString(rank)));
    command.addAll(List.of("--barrier", barrier.toString()));
    command.addAll(settings.arguments());
    ProcessBuilder builder = AnswerPipe.starting(command);
    NoMulticast.in(builder);
    return builder;
  }

  private void readAll() {
    try (BufferedReader output = process.inputReader(UTF_8)) {
      output.lines().forEach(lines::add);
    } catch (IOException | UncheckedIOException e) {
      // The process was ended while it wrote; the missing output is detected as its end.
      lines.add(END);
      return;
    }
    lines.add(END);
  }

  /** The member's next line of output. */
  String readLine(int limitSeconds) throws InterruptedException {
    String line = lines.poll(limitSeconds, TimeUnit.SECONDS);
    if (line == null) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "rank %d of the Java benchmark has said nothing for %d s",
              rank,
              limitSeconds));
    }
    if (line.equals(END)) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "rank %d of the Java benchmark ended without a result; its output is above",
              rank));
    }
    return line;
  }

  /** Sends the ticket by standard input, because every user of the host can read arguments. */
  void give(String ticket) {
    try (Writer input = new OutputStreamWriter(process.getOutputStream(), UTF_8)) {
      input.write(ticket + "\n");
    } catch (IOException e) {
      throw ended(e);
    }
  }

  private CollectiveException ended(@Nullable Exception cause) {
    return new CollectiveException(
        String.format(
            Locale.ROOT,
            "rank %d of the Java benchmark ended without a result; its output is above",
            rank),
        cause);
  }

  /** Waits for the process's end and checks its exit code. */
  void await() throws InterruptedException {
    if (!process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS)) {
      throw new CollectiveException("rank " + rank + " of the Java benchmark does not end");
    }
    if (process.exitValue() != 0) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "rank %d of the Java benchmark ended with code %d",
              rank,
              process.exitValue()));
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
