package io.nvrar.support;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A JVM of its own, for what must die, or happens once per process. Its output, standard error
 * included, is read line by line; {@link #close} ends it.
 */
public final class ChildJvm implements AutoCloseable {
  private static final Duration LIMIT = Duration.ofMinutes(2);

  private final Process process;
  private final Writer input;

  private final BlockingQueue<Line> lines = new LinkedBlockingQueue<>();

  /** What it has said; null at its end. */
  private record Line(@Nullable String text) {}

  private ChildJvm(Process process) {
    this.process = process;
    input = process.outputWriter(UTF_8);
    Thread reader = new Thread(this::read, "output of pid " + process.pid());
    reader.setDaemon(true);
    reader.start();
  }

  /** One that is to run a main class. */
  public static Builder of(String main, String... arguments) {
    return new Builder(main, arguments);
  }

  private void read() {
    try (BufferedReader output = process.inputReader(UTF_8)) {
      output.lines().map(Line::new).forEach(lines::add);
    } catch (IOException | UncheckedIOException e) {
      lines.add(new Line("output ended: " + e));
    }
    lines.add(new Line(null));
  }

  public long pid() {
    return process.pid();
  }

  /** Writes a line to its standard input, which stays open. */
  public void say(String line) throws IOException {
    input.write(line + "\n");
    input.flush();
  }

  /** Ends its standard input. */
  public void endInput() throws IOException {
    input.close();
  }

  /** The rest of its next line that begins so. */
  public String awaitLine(String beginning) throws InterruptedException {
    return awaitLine(beginning, LIMIT);
  }

  /** {@link #awaitLine(String)} in another time than two minutes. */
  public String awaitLine(String beginning, Duration limit) throws InterruptedException {
    List<String> before = new ArrayList<>();
    long deadline = System.nanoTime() + limit.toNanos();
    while (true) {
      Line line = lines.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      String text = line == null ? null : line.text();
      if (text == null) {
        if (line == null) {
          killAll();
        }
        throw new AssertionError(
            String.format(
                Locale.ROOT,
                "pid %d %s without a line '%s':%n%s",
                pid(),
                line == null ? "was killed after " + limit : "ended",
                beginning,
                String.join("\n", before)));
      }
      if (text.startsWith(beginning)) {
        return text.substring(beginning.length());
      }
      before.add(text);
    }
  }

  /** Waits for its end; what nobody has taken of its output. */
  public List<String> awaitEnd(Duration limit) throws InterruptedException {
    boolean ended = process.waitFor(limit.toNanos(), TimeUnit.NANOSECONDS);
    if (!ended) {
      killAll();
    }
    List<String> rest = new ArrayList<>();
    for (String text = lines.take().text(); text != null; text = lines.take().text()) {
      rest.add(text);
    }
    assertThat(ended).as("pid %d ended within %s: %s", pid(), limit, rest).isTrue();
    return rest;
  }

  /** Waits for its end and returns its output, after checking the exit code. */
  public String end(int expectedExitCode) throws InterruptedException {
    // Without what SLF4J says where there is no logger.
    String text =
        awaitEnd(LIMIT).stream()
            .filter(line -> !line.startsWith("SLF4J: "))
            .map(line -> line + "\n")
            .collect(Collectors.joining());
    assertThat(exitCode()).as(text).isEqualTo(expectedExitCode);
    return text;
  }

  /** Of one that has ended. */
  public int exitCode() {
    return process.exitValue();
  }

  /** SIGKILL. */
  public void kill() {
    process.destroyForcibly();
  }

  private void killAll() {
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    kill();
  }

  /** Such as {@code STOP} or {@code CONT}. */
  public void signal(String name) throws IOException, InterruptedException {
    Process kill = new ProcessBuilder("kill", "-" + name, Long.toString(pid())).start();
    if (kill.waitFor() != 0) {
      throw new IOException("kill -" + name + " failed");
    }
  }

  @Override
  public void close() {
    process.destroyForcibly().onExit().orTimeout(10, TimeUnit.SECONDS).join();
  }

  /** How a JVM is started: with this one's class path and environment, unless it is told others. */
  public static final class Builder {
    private final List<String> prefix = new ArrayList<>();
    private final List<String> options = new ArrayList<>();
    private final Map<String, @Nullable String> environment = new HashMap<>();
    private final List<String> program = new ArrayList<>();
    private String classPath = System.getProperty("java.class.path");

    private Builder(String main, String... arguments) {
      program.add(main);
      program.addAll(List.of(arguments));
    }

    /** The command to run java under. */
    public Builder under(List<String> command) {
      prefix.addAll(command);
      return this;
    }

    public Builder options(List<String> more) {
      options.addAll(more);
      return this;
    }

    public Builder options(String... more) {
      return options(List.of(more));
    }

    public Builder classPath(String path) {
      classPath = path;
      return this;
    }

    /** A variable of its environment; null: it has none of that name. */
    public Builder environment(String name, @Nullable String value) {
      environment.put(name, value);
      return this;
    }

    public ChildJvm start() throws IOException {
      List<String> command = new ArrayList<>(prefix);
      command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
      command.addAll(options);
      command.addAll(List.of("-cp", classPath));
      command.addAll(program);
      ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
      environment.forEach(
          (name, value) -> {
            if (value == null) {
              builder.environment().remove(name);
            } else {
              builder.environment().put(name, value);
            }
          });
      return new ChildJvm(builder.start());
    }
  }
}
