package io.nvrar.it.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.it.soak.call.Tally;
import io.nvrar.it.soak.worker.Line;
import io.nvrar.it.soak.worker.Outcome;
import io.nvrar.it.soak.worker.ProcessResources;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.tools.AnswerPipe;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The controller's handle of a {@link WorkerMain} process: sends tasks, receives answers, injects
 * faults.
 */
final class WorkerProcess {
  private static final int SIGNAL_SECONDS = 10;
  private static final int END_SECONDS = 10;

  private final Process process;
  private final Path log;
  private final PrintStream commands;
  private final Map<String, Task> tasks = new ConcurrentHashMap<>();
  private final CompletableFuture<Void> ready = new CompletableFuture<>();
  private final CompletableFuture<Void> gone = new CompletableFuture<>();
  private volatile CompletableFuture<ProcessResources> holdings = new CompletableFuture<>();

  /** A task of a worker; the futures complete with its progress. */
  static final class Task {
    final String id;
    final CompletableFuture<byte[]> ticket = new CompletableFuture<>();
    final CompletableFuture<Void> observing = new CompletableFuture<>();
    final CompletableFuture<Void> released = new CompletableFuture<>();

    /** Completes when the moment of the fault is reached. */
    final CompletableFuture<Long> reached = new CompletableFuture<>();

    final CompletableFuture<Tally> verified = new CompletableFuture<>();
    final CompletableFuture<Outcome> ended = new CompletableFuture<>();

    private Task(String id) {
      this.id = id;
    }

    private void breakOff(Exception why) {
      ended.complete(Outcome.of(Outcome.End.DIED));
      List.of(ticket, observing, released, reached, verified)
          .forEach(future -> future.completeExceptionally(why));
    }
  }

  private WorkerProcess(Process process, Path log) {
    this.process = process;
    this.log = log;
    commands = new PrintStream(process.getOutputStream(), true, UTF_8);
    Thread reader = new Thread(this::read, "soak-reader-" + process.pid());
    reader.setDaemon(true);
    reader.start();
  }

  /**
   * Starts one.
   *
   * @param start its command line, with an {@link AnswerPipe}
   * @param log where its standard output and standard error are appended
   */
  static WorkerProcess start(ProcessBuilder start, Path log) throws IOException {
    return new WorkerProcess(
        start.redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start(), log);
  }

  long pid() {
    return process.pid();
  }

  boolean isAlive() {
    return process.isAlive();
  }

  CompletableFuture<Void> ready() {
    return ready;
  }

  /** Completes when the process has ended and all of its output has been processed. */
  CompletableFuture<Void> gone() {
    return gone;
  }

  /** Sends the worker a task. */
  Task begin(String kind, String id, Object... words) {
    Task task = tasks.computeIfAbsent(id, Task::new);
    say(Line.of(kind, id).with(List.of(words)));
    if (gone.isDone()) {
      task.breakOff(died());
    }
    return task;
  }

  void forget(Task task) {
    tasks.remove(task.id);
  }

  CompletableFuture<ProcessResources> holdings() {
    CompletableFuture<ProcessResources> asked = new CompletableFuture<>();
    holdings = asked;
    say(Line.of("holdings", "-"));
    if (gone.isDone()) {
      asked.completeExceptionally(died());
    }
    return asked;
  }

  private void say(Line line) {
    // A worker that has ended reads nothing; its tasks complete nevertheless.
    commands.println(line);
  }

  private IOException died() {
    return new IOException("worker " + pid() + " is gone");
  }

  private void read() {
    try (BufferedReader reader = process.inputReader(UTF_8)) {
      for (String text = reader.readLine(); text != null; text = reader.readLine()) {
        heard(Line.parse(text));
      }
    } catch (IOException | RuntimeException e) {
      ready.completeExceptionally(e);
    } finally {
      awaitExit(); // its pipe ends a little earlier
      ready.completeExceptionally(died());
      holdings.completeExceptionally(died());
      commands.close();
      gone.complete(null);
      tasks.values().forEach(task -> task.breakOff(died()));
    }
  }

  private void awaitExit() {
    try {
      process.waitFor(END_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void heard(Line line) {
    switch (line.kind()) {
      case "ready" -> ready.complete(null);
      case "holdings" -> holdings.complete(ProcessResources.parse(line.from(1)));
      default -> {
        @Nullable Task task = tasks.get(line.word(1));
        if (task != null) {
          heard(task, line);
        }
      }
    }
  }

  private static void heard(Task task, Line line) {
    switch (line.kind()) {
      case "ticket" -> task.ticket.complete(Base64.getDecoder().decode(line.word(2)));
      case "observing" -> task.observing.complete(null);
      case "released" -> task.released.complete(null);
      case "reached" -> task.reached.complete(Long.parseLong(line.word(2)));
      case "verified" -> task.verified.complete(Tally.parse(line.from(2)));
      case "ended" -> task.ended.complete(Outcome.parse(line.from(2)));
      case "broken" -> task.breakOff(new IOException("a task broke: " + line.word(2)));
      default -> throw new IllegalStateException("a worker says " + line);
    }
  }

  /** SIGKILL. */
  void kill() {
    process.destroyForcibly();
  }

  /**
   * Sends SIGSTOP, and SIGCONT after the given time, from a process that does so even if this one
   * is killed.
   *
   * @return when it was stopped, and the process that resumes it
   */
  Pause stop(int millis) throws IOException {
    Process shell =
        new ProcessBuilder(
                "sh",
                "-c",
                "kill -STOP $0 && echo stopped; sleep $1; kill -CONT $0",
                Long.toString(pid()),
                String.format(Locale.ROOT, "%d.%03d", millis / 1000, millis % 1000))
            .redirectError(ProcessBuilder.Redirect.appendTo(log.toFile()))
            .start();
    long before = System.nanoTime();
    try (BufferedReader answer = shell.inputReader(UTF_8)) {
      String word = answer.readLine();
      if (!"stopped".equals(word)) {
        throw new IOException("worker " + pid() + " cannot be stopped");
      }
    }
    return new Pause(before, shell);
  }

  /** A process that is stopped for a while. */
  record Pause(long sinceNanos, Process shell) {
    void await() throws InterruptedException {
      shell.waitFor();
    }
  }

  /** Makes the JVM write a thread dump into the log. */
  void dumpThreads() throws IOException, InterruptedException {
    Process kill = new ProcessBuilder("kill", "-QUIT", Long.toString(pid())).start();
    kill.waitFor(SIGNAL_SECONDS, TimeUnit.SECONDS);
  }

  /** Tells it to end in order. */
  void dismiss() {
    commands.close();
  }

  /** Ends it in order, or if that fails by force. */
  void end() throws InterruptedException {
    dismiss();
    if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
      kill();
      process.waitFor(END_SECONDS, TimeUnit.SECONDS);
    }
  }
}
