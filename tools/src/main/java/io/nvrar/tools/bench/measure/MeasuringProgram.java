package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * An external program that measures, writes what it has found into a file, and says on standard
 * error what it has left out and what links took of the cores. It runs without NVLink multicast.
 */
public final class MeasuringProgram {
  private static final int GRACE_SECONDS = 5;

  private final List<String> command;
  private final List<String> names;
  private final int limitSeconds;
  private final Set<Integer> codes = new HashSet<>(Set.of(0));

  /**
   * Does not start it.
   *
   * @param command the program and its arguments
   * @param names what its own messages begin with
   * @param limitSeconds how long it may take
   */
  public MeasuringProgram(List<String> command, List<String> names, int limitSeconds) {
    this.command = command;
    this.names = names;
    this.limitSeconds = limitSeconds;
  }

  /** Takes another exit code for a success. */
  MeasuringProgram accepting(int code) {
    codes.add(code);
    return this;
  }

  /**
   * Runs it to its end.
   *
   * @param option the option that names its file
   * @param said hears what it has left out, and why, and what links took of the cores
   * @return the lines of its file
   * @throws IOException with what it has said, if it has failed or takes too long
   */
  public List<String> run(String option, Consumer<String> said)
      throws IOException, InterruptedException {
    Path directory = Files.createTempDirectory("nvrar-bench");
    Path file = directory.resolve("results");
    Path errors = directory.resolve("errors");
    try {
      List<String> words = new ArrayList<>(command);
      words.addAll(List.of(option, file.toString()));
      // Also deletes the files if a signal ends this JVM, which then runs no finally block. The
      // last one registered is deleted first.
      Stream.of(directory, file, errors).forEach(path -> path.toFile().deleteOnExit());
      ProcessBuilder builder =
          new ProcessBuilder(words)
              // A program that asked something would wait for an answer that nobody gives.
              .redirectInput(Path.of("/dev/null").toFile())
              .redirectOutput(Redirect.DISCARD)
              .redirectError(errors.toFile());
      NoMulticast.in(builder);
      Process process = builder.start();
      Thread end = new Thread(process::destroy, "bench-end");
      Runtime.getRuntime().addShutdownHook(end);
      try {
        check(process, words, errors);
      } finally {
        end(process);
        if (Files.exists(errors)) {
          linesOf(errors).filter(this::isToBeHeard).forEach(said);
        }
        remove(end);
      }
      if (!Files.exists(file)) {
        throw new IOException(String.join(" ", words) + ": it has written no results");
      }
      return Files.readAllLines(file, UTF_8);
    } finally {
      Files.deleteIfExists(file);
      Files.deleteIfExists(errors);
      Files.delete(directory);
    }
  }

  // SIGTERM first, because mpirun would leave its processes behind if it were killed.
  private static void end(Process process) throws InterruptedException {
    List<ProcessHandle> below = process.descendants().toList();
    process.destroy();
    if (!process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS)) {
      process.destroyForcibly();
    }
    below.forEach(ProcessHandle::destroyForcibly);
  }

  private static void remove(Thread hook) {
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException e) {
      // This JVM is ending, and runs the hook. What has happened before is thrown.
    }
  }

  private void check(Process process, List<String> words, Path errors)
      throws IOException, InterruptedException {
    if (!process.waitFor(limitSeconds, TimeUnit.SECONDS)) {
      throw new IOException(
          String.format(
              Locale.ROOT, "%s has not ended within %d s", String.join(" ", words), limitSeconds));
    }
    int code = process.exitValue();
    if (!codes.contains(code)) {
      // What the program went on without is not why it failed.
      List<String> lines = linesOf(errors).filter(line -> !isToBeHeard(line)).toList();
      String said =
          lines.stream()
              .filter(line -> names.stream().anyMatch(line::startsWith))
              .findFirst()
              // The last line of a Python traceback.
              .or(() -> lines.stream().filter(line -> line.contains("Error: ")).findFirst())
              .orElse("it ended with code " + code);
      throw new IOException(String.format(Locale.ROOT, "%s: %s", String.join(" ", words), said));
    }
  }

  // Whatever the bytes are: the libraries below a program write there, too.
  private static Stream<String> linesOf(Path errors) throws IOException {
    return new String(Files.readAllBytes(errors), UTF_8).lines();
  }

  private boolean isToBeHeard(String line) {
    return names.stream().anyMatch(name -> line.startsWith(name + ": "))
        && (line.contains(" is left out: ") || line.contains(" core-seconds "));
  }
}
