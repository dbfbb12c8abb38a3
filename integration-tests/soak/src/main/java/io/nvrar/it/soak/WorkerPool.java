package io.nvrar.it.soak;

import io.nvrar.internal.flight.Announcement;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.tools.AnswerPipe;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/** The worker processes by number. A killed process is replaced. */
final class WorkerPool {
  private static final int START_SECONDS = 120;
  private static final String NATIVE_DIR = "nvrar.native.dir";

  /** How the names of the files end that let {@code nvrar top} find members. */
  private static final String MEMBER = ".member";

  private final List<String> command;
  private final Fleet fleet;
  private final SimulatedHosts hosts;
  private final Path directory;
  private final List<WorkerProcess> workers = new ArrayList<>();
  private final List<WorkerProcess> all = new CopyOnWriteArrayList<>();

  /** The process ids of the workers that were killed and replaced. */
  private final List<Long> replaced = new ArrayList<>();

  /**
   * Starts the workers.
   *
   * @param mainClass {@link WorkerMain}, except in tests
   * @param seed the seed from which the workers draw the rounds
   * @param fleet those of them that hold members; one more, on the first host, is the observer
   * @param directory the directory of their logs
   */
  WorkerPool(String mainClass, long seed, Fleet fleet, Path directory)
      throws IOException, InterruptedException {
    this.directory = directory;
    this.fleet = fleet;
    hosts = new SimulatedHosts(directory.resolve("hosts"));
    command = command(mainClass, seed, fleet, Files.createDirectories(temporary(directory)));
    try {
      for (int i = 0; i <= fleet.size(); i++) {
        workers.add(startOne(i));
      }
      for (WorkerProcess worker : workers) {
        awaitReady(worker);
      }
    } catch (IOException | InterruptedException | RuntimeException e) {
      end();
      throw e;
    }
  }

  private static List<String> command(String mainClass, long seed, Fleet fleet, Path temporary) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // These options keep the memory of a JVM without leaks flat: the heap is allocated from the
    // start, and the JVM has all of its own threads from the start.
    command.addAll(
        List.of(
            "-XX:+UseSerialGC",
            "-Xms48m",
            "-Xmx48m",
            "-XX:+AlwaysPreTouch",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UseDynamicNumberOfCompilerThreads",
            "-XX:-UsePerfData",
            "--enable-native-access=ALL-UNNAMED",
            "-Dkryo.unsafe=false",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Djava.io.tmpdir=" + temporary,
            "-D" + FlightFile.DIRECTORY_PROPERTY + "=" + temporary.resolveSibling("flight"),
            "-D" + Announcement.DIRECTORY_PROPERTY + "=" + announcements(temporary)));
    String nativeDir = System.getProperty(NATIVE_DIR);
    if (nativeDir != null) {
      command.add("-D" + NATIVE_DIR + "=" + nativeDir);
    }
    command.addAll(List.of("-cp", absolute(System.getProperty("java.class.path")), mainClass));
    command.add(Long.toString(seed));
    command.add(Integer.toString(fleet.onFirstHost()));
    command.add(Integer.toString(fleet.hosts()));
    command.add(Integer.toString(fleet.gpus()));
    return command;
  }

  private static String absolute(String classPath) {
    List<String> entries = new ArrayList<>();
    for (String entry : classPath.split(File.pathSeparator, -1)) {
      entries.add(Path.of(entry).toAbsolutePath().toString());
    }
    return String.join(File.pathSeparator, entries);
  }

  /** The directory of the workers' temporary files. */
  static Path temporary(Path directory) {
    return directory.resolve("tmp");
  }

  /** The directory of the files that let {@code nvrar top} find the workers' members. */
  private static Path announcements(Path temporary) {
    return temporary.resolveSibling("top");
  }

  /** What members still announce, but for those of killed workers, whose files stay a while. */
  List<Path> announced() throws IOException {
    Path announcements = announcements(temporary(directory));
    if (!Files.isDirectory(announcements)) {
      return List.of(); // no member was ever created
    }
    try (Stream<Path> files = Files.list(announcements)) {
      return files
          .filter(file -> file.toString().endsWith(MEMBER))
          .filter(file -> replaced.stream().noneMatch(pid -> isOf(pid, file.toString())))
          .toList();
    }
  }

  private static boolean isOf(long pid, String file) {
    return file.endsWith("-" + pid + MEMBER);
  }

  private WorkerProcess startOne(int index) throws IOException {
    int host = index < fleet.size() ? fleet.hostOf(index) : 0;
    List<String> ofHost = new ArrayList<>(command);
    ofHost.add(Integer.toString(host));
    ProcessBuilder start = AnswerPipe.starting(ofHost);
    start.command(hosts.on(host, start.command()));
    WorkerProcess worker =
        WorkerProcess.start(start, directory.resolve("worker-" + index + ".log"));
    all.add(worker);
    return worker;
  }

  private static void awaitReady(WorkerProcess worker) throws IOException, InterruptedException {
    try {
      worker.ready().get(START_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      throw new IOException("worker " + worker.pid() + " does not start; its log says why", e);
    }
  }

  /** The workers that hold members; a worker's number is its index. */
  List<WorkerProcess> members() {
    return workers.subList(0, workers.size() - 1);
  }

  /** The worker that observes groups. */
  WorkerProcess observer() {
    return workers.get(workers.size() - 1);
  }

  List<WorkerProcess> workers() {
    return List.copyOf(workers);
  }

  /** Replaces processes that have ended. */
  void replaceDead() throws IOException, InterruptedException {
    List<WorkerProcess> fresh = new ArrayList<>();
    List<WorkerProcess> dead = all.stream().filter(worker -> !worker.isAlive()).toList();
    all.removeAll(dead);
    dead.forEach(worker -> replaced.add(worker.pid()));
    for (int i = 0; i < workers.size(); i++) {
      if (!workers.get(i).isAlive()) {
        workers.set(i, startOne(i));
        fresh.add(workers.get(i));
      }
    }
    for (WorkerProcess worker : fresh) {
      awaitReady(worker);
    }
  }

  /** The live ones of all processes ever started. */
  List<Long> living() {
    return all.stream().filter(WorkerProcess::isAlive).map(WorkerProcess::pid).toList();
  }

  /** Kills all processes with SIGKILL, when this process ends. */
  void killAll() {
    List.copyOf(all).forEach(WorkerProcess::kill);
  }

  /** Ends all. */
  void end() throws InterruptedException {
    all.forEach(WorkerProcess::dismiss);
    for (WorkerProcess worker : all) {
      worker.end();
    }
  }
}
