package io.nvrar.it.soak.worker;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/**
 * The system resources of a process, but for the descriptors and threads of NVIDIA's driver, which
 * keeps as many as it likes.
 *
 * @param descriptors the target of each open file descriptor, sockets and pipes without their
 *     numbers
 * @param threads the names of the Java threads
 * @param tasks the names of all threads, as the kernel lists them
 * @param segments mappings of shared memory segments
 * @param rssBytes resident memory
 * @param heapBytes used Java heap after a collection
 */
public record ProcessResources(
    List<String> descriptors,
    List<String> threads,
    List<String> tasks,
    int segments,
    long rssBytes,
    long heapBytes) {

  private static final Path SELF = Path.of("/proc/self");
  private static final String DRIVER_FILES = "/dev/nvidia";
  private static final String DRIVER_THREADS = "cuda";
  private static final String SEPARATOR = "\n";
  private static final int WORDS = 6;

  /** The resources of this process, after a garbage collection. */
  static ProcessResources ofThisProcess() throws IOException {
    MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
    memory.gc();
    long heap = memory.getHeapMemoryUsage().getUsed();
    List<String> descriptors =
        Descriptors.of(SELF).stream()
            .filter(target -> !target.startsWith(DRIVER_FILES))
            .map(target -> target.replaceFirst("^(socket|pipe):.*", "$1"))
            .sorted()
            .toList();
    int segments;
    try (Stream<String> lines = Files.lines(SELF.resolve("maps"))) {
      segments = (int) lines.filter(line -> line.contains("/memfd:nvrar")).count();
    }
    List<String> threads =
        Thread.getAllStackTraces().keySet().stream().map(Thread::getName).sorted().toList();
    String resident =
        Files.readString(SELF.resolve("status"))
            .lines()
            .filter(line -> line.startsWith("VmRSS:"))
            .findFirst()
            .orElse("VmRSS: 0 kB");
    return new ProcessResources(
        descriptors,
        threads,
        tasksOfThisProcess(),
        segments,
        1024 * Long.parseLong(resident.replaceAll("[^0-9]", "")),
        heap);
  }

  private static List<String> tasksOfThisProcess() throws IOException {
    try (Stream<Path> entries = Files.list(SELF.resolve("task"))) {
      return entries
          .map(ProcessResources::nameOf)
          .filter(name -> !name.startsWith(DRIVER_THREADS))
          .sorted()
          .toList();
    }
  }

  private static String nameOf(Path task) {
    try {
      return Files.readString(task.resolve("comm")).strip();
    } catch (IOException e) {
      return "ended";
    }
  }

  List<Object> words() {
    return List.of(
        String.join(SEPARATOR, descriptors),
        String.join(SEPARATOR, threads),
        String.join(SEPARATOR, tasks),
        segments,
        rssBytes,
        heapBytes);
  }

  public static ProcessResources parse(List<String> words) {
    if (words.size() != WORDS) {
      throw new IllegalArgumentException("holdings have " + WORDS + " words, not " + words.size());
    }
    return new ProcessResources(
        List.of(words.get(0).split(SEPARATOR, -1)),
        List.of(words.get(1).split(SEPARATOR, -1)),
        List.of(words.get(2).split(SEPARATOR, -1)),
        Integer.parseInt(words.get(3)),
        Long.parseLong(words.get(4)),
        Long.parseLong(words.get(5)));
  }
}
