package io.nvrar.examples.llama;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The memory of an actor's host or container, as Ray's memory monitor sees it: the monitor ends
 * actors once a share of the memory is used. A class and not a record: Ray's serializer cannot read
 * records back.
 */
public final class HostMemory implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final double DEFAULT_THRESHOLD = 0.95;
  private static final Path MEMORY = Path.of("/proc/meminfo");
  private static final Path CGROUP = Path.of("/sys/fs/cgroup");

  private final String host;
  private final long total;
  private final long used;
  private final double threshold;

  /**
   * With all of it.
   *
   * @param host its name
   * @param total its bytes
   * @param used those in use, without what the system would give back
   * @param threshold the share of the total that may be used
   */
  HostMemory(String host, long total, long used, double threshold) {
    this.host = host;
    this.total = total;
    this.used = used;
    this.threshold = threshold;
  }

  /** That of this process's host, and the threshold of the Ray that started this process. */
  static HostMemory here() {
    try {
      String host = Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
      Map<String, Long> kibibytes = numbers(MEMORY);
      long total = kibibytes.getOrDefault("MemTotal:", 0L) << 10;
      long used = total - (kibibytes.getOrDefault("MemAvailable:", 0L) << 10);
      String setting = System.getenv("RAY_memory_usage_threshold");
      double threshold = setting == null ? DEFAULT_THRESHOLD : Double.parseDouble(setting);
      String limit = content(CGROUP.resolve("memory.max"));
      if (limit.matches("[0-9]{1,18}") && Long.parseLong(limit) < total) {
        Map<String, Long> bytes = numbers(CGROUP.resolve("memory.stat"));
        total = Long.parseLong(limit);
        used =
            Long.parseLong(content(CGROUP.resolve("memory.current")))
                - bytes.getOrDefault("inactive_file", 0L)
                - bytes.getOrDefault("active_file", 0L);
      }
      return new HostMemory(host, total, used, threshold);
    } catch (IOException | NumberFormatException e) {
      throw new IllegalStateException("the memory of this host is unknown: " + e, e);
    }
  }

  /**
   * Why some ranks do not fit into their hosts; empty if they do.
   *
   * @param needs the bytes that each rank will take
   * @param memories of the host of each, before
   */
  static String problem(List<Long> needs, List<HostMemory> memories) {
    Map<String, List<Integer>> ranksOf = new LinkedHashMap<>();
    for (int rank = 0; rank < needs.size(); rank++) {
      ranksOf.computeIfAbsent(memories.get(rank).host, host -> new ArrayList<>()).add(rank);
    }
    for (List<Integer> ranks : ranksOf.values()) {
      HostMemory memory = memories.get(ranks.get(0));
      long need = ranks.stream().mapToLong(needs::get).sum();
      long free = Math.max(0, (long) (memory.threshold * memory.total) - memory.used);
      if (need > free) {
        return String.format(
            Locale.ROOT,
            "The weights, keys and values of %d rank%s take %d bytes on %s, where Ray lets %s of"
                + " %d bytes be used and %d are in use: %d bytes are missing.",
            ranks.size(),
            ranks.size() == 1 ? "" : "s",
            need,
            memory.host,
            percent(memory.threshold),
            memory.total,
            memory.used,
            need - free);
      }
    }
    return "";
  }

  private static String percent(double share) {
    return Math.round(100 * share) + " %";
  }

  private static String content(Path file) throws IOException {
    return Files.isReadable(file) ? Files.readString(file).strip() : "";
  }

  /** The numbers of a file with a name and a number in each line. */
  private static Map<String, Long> numbers(Path file) throws IOException {
    Map<String, Long> numbers = new LinkedHashMap<>();
    for (String line : content(file).lines().toList()) {
      String[] words = line.strip().split("\\s+", -1);
      if (words.length > 1) {
        numbers.put(words[0], Long.parseLong(words[1]));
      }
    }
    return numbers;
  }
}
