package io.nvrar.it;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Another JVM with the tests' class path, ended by {@link #close}. */
final class ForkedJvm implements AutoCloseable {
  private static final int LINE_SECONDS = 120;

  private final Process process;
  private final BufferedReader output;

  private ForkedJvm(Process process) {
    this.process = process;
    this.output = process.inputReader(StandardCharsets.UTF_8);
  }

  /**
   * Starts a driver of a cluster.
   *
   * @param command a main class and its arguments
   */
  static ForkedJvm driver(RayCluster cluster, String... command) throws IOException {
    return start(cluster.driverProperties(), RayCluster.classPath(), command);
  }

  /** Starts a JVM without Ray. */
  static ForkedJvm plain(String... command) throws IOException {
    String withoutRay =
        Arrays.stream(RayCluster.classPath().split(File.pathSeparator))
            .filter(path -> !path.endsWith("ray_dist.jar"))
            .collect(Collectors.joining(File.pathSeparator));
    return start(List.of(), withoutRay, command);
  }

  private static ForkedJvm start(List<String> properties, String classPath, String... command)
      throws IOException {
    List<String> line = new ArrayList<>();
    line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    line.addAll(RayCluster.jvmOptions());
    properties.forEach(property -> line.add("-D" + property));
    line.addAll(List.of("-cp", classPath));
    line.addAll(List.of(command));
    return new ForkedJvm(new ProcessBuilder(line).redirectErrorStream(true).start());
  }

  long pid() {
    return process.pid();
  }

  /** The next line of output, standard error included, that begins so; without that beginning. */
  String awaitLine(String beginning) throws IOException {
    // A read has no limit; it ends when nobody is left who could write.
    CompletableFuture<Void> limit =
        CompletableFuture.runAsync(
            this::killAll, CompletableFuture.delayedExecutor(LINE_SECONDS, TimeUnit.SECONDS));
    StringBuilder before = new StringBuilder();
    try {
      for (String line = output.readLine(); line != null; line = output.readLine()) {
        if (line.startsWith(beginning)) {
          return line.substring(beginning.length());
        }
        before.append(line).append('\n');
      }
    } finally {
      limit.cancel(false);
    }
    throw new AssertionError(
        "ended, or was killed after %d s, without a line '%s':%n%s"
            .formatted(LINE_SECONDS, beginning, before));
  }

  private void killAll() {
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    kill();
  }

  /** What is left of the output, once the process has ended. */
  List<String> awaitEnd(Duration limit) throws InterruptedException {
    if (!process.waitFor(limit.toSeconds(), TimeUnit.SECONDS)) {
      throw new AssertionError("does not end within " + limit);
    }
    return output.lines().toList();
  }

  int exitCode() {
    return process.exitValue();
  }

  /** Ends its input. */
  void end() throws IOException {
    process.getOutputStream().close();
  }

  /** SIGKILL. */
  void kill() {
    process.destroyForcibly();
  }

  @Override
  public void close() {
    kill();
  }
}
