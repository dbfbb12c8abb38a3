package io.nvrar.tools;

import io.nvrar.internal.CpuList;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A picture of this machine: the cores, memory, GPUs and network interfaces of each NUMA node, and
 * how the GPUs reach each other. What Linux does not say is left out.
 */
final class MachineReport {
  /** Comes behind all nodes. */
  private static final int NO_NODE = Integer.MAX_VALUE;

  private static final Pattern NODE = Pattern.compile("node([0-9]{1,9})");
  private static final Pattern NUMBER = Pattern.compile("-?[0-9]{1,9}");
  private static final Pattern MEMORY = Pattern.compile("MemTotal: *([0-9]{1,15}) kB");
  private static final double KIB_PER_GIB = 1 << 20;

  /** How two GPUs, by their places in the list, reach each other. */
  @FunctionalInterface
  interface Links {
    CudaReport.Link between(int a, int b);
  }

  private final Path sysfs;
  private final List<CudaReport.Gpu> gpus;
  private final Links links;

  /** The lines of each node, by its number. */
  private final TreeMap<Integer, List<String>> rows = new TreeMap<>();

  private MachineReport(Path sysfs, List<CudaReport.Gpu> gpus, Links links) {
    this.sysfs = sysfs;
    this.gpus = gpus;
    this.links = links;
  }

  /**
   * The picture, in lines that all end; empty if there is nothing to say.
   *
   * @param sysfs {@code /sys}
   * @param gpus those that this process sees, by ordinal
   */
  static String of(Path sysfs, List<CudaReport.Gpu> gpus, Links links) {
    return new MachineReport(sysfs, gpus, links).text();
  }

  private String text() {
    nodes();
    List<Integer> nodesOfGpus = new ArrayList<>();
    for (CudaReport.Gpu gpu : gpus) {
      int node = nodeOf(gpu.address().directory(sysfs));
      nodesOfGpus.add(node);
      add(node, gpu.name(), gpu.model() + ", " + gpu.address());
    }
    interfaces();
    StringBuilder text = new StringBuilder();
    if (!rows.isEmpty()) {
      text.append("this machine by NUMA node:\n");
      rows.values().forEach(lines -> lines.forEach(text::append));
    }
    if (gpus.size() > 1) {
      text.append("from GPU to GPU:\n");
      matrix(nodesOfGpus).forEach(text::append);
    }
    return text.toString();
  }

  private void nodes() {
    Path folder = sysfs.resolve("devices/system/node");
    for (String name : names(folder)) {
      Matcher matcher = NODE.matcher(name);
      if (matcher.matches()) {
        Path node = folder.resolve(name);
        int number = Integer.parseInt(matcher.group(1));
        rows.put(number, new ArrayList<>());
        cores(number, node.resolve("cpulist"));
        read(node.resolve("meminfo")).ifPresent(said -> memory(number, said));
      }
    }
    // A kernel without NUMA has no nodes.
    if (rows.isEmpty()) {
      cores(NO_NODE, sysfs.resolve("devices/system/cpu/online"));
    }
  }

  private void cores(int node, Path file) {
    try {
      read(file)
          .map(CpuList::parse)
          .filter(cores -> !cores.isEmpty())
          .ifPresent(
              cores ->
                  add(node, "cores", String.format(Locale.ROOT, "%d, %s", cores.size(), cores)));
    } catch (IllegalArgumentException e) {
      add(node, "cores", file + " cannot be read: " + e.getMessage());
    }
  }

  private void memory(int node, String meminfo) {
    Matcher matcher = MEMORY.matcher(meminfo);
    if (matcher.find()) {
      double gib = Long.parseLong(matcher.group(1)) / KIB_PER_GIB;
      add(node, "memory", String.format(Locale.ROOT, "%.1f GiB", gib));
    }
  }

  /** Those with hardware, or what a virtual machine has for it: not loopback, bridges, tunnels. */
  private void interfaces() {
    Path folder = sysfs.resolve("class/net");
    for (String name : names(folder)) {
      Path device = folder.resolve(name).resolve("device");
      if (Files.isDirectory(device)) {
        List<String> said = new ArrayList<>();
        number(folder.resolve(name).resolve("speed")).ifPresent(speed -> speed(speed, said));
        read(folder.resolve(name).resolve("operstate")).ifPresent(state -> said.add(state.strip()));
        add(nodeOf(device), name, String.join(", ", said));
      }
    }
  }

  /** In megabits a second; -1 if the interface does not know. */
  private static void speed(int megabits, List<String> said) {
    if (megabits >= 1000) {
      said.add(megabits % 1000 == 0 ? megabits / 1000 + " Gb/s" : megabits / 1000.0 + " Gb/s");
    } else if (megabits > 0) {
      said.add(megabits + " Mb/s");
    }
  }

  /**
   * The node of a device, or of the nearest device above it for which Linux knows one, as of a
   * virtual network interface. Where there is one node, all is on it.
   */
  private int nodeOf(Path device) {
    if (rows.size() == 1) {
      return rows.firstKey();
    }
    try {
      Path root = sysfs.toRealPath();
      for (Path at = device.toRealPath(); at != null && at.startsWith(root); at = at.getParent()) {
        OptionalInt node = number(at.resolve("numa_node"));
        if (node.isPresent()) {
          return rows.containsKey(node.getAsInt()) ? node.getAsInt() : NO_NODE;
        }
      }
    } catch (IOException e) {
      return NO_NODE; // a container may see GPUs that its /sys does not show
    }
    return NO_NODE;
  }

  private void add(int node, String what, String detail) {
    rows.computeIfAbsent(node, none -> new ArrayList<>())
        .add(
            String.format(
                        Locale.ROOT,
                        "%-8s %-16s %s",
                        node == NO_NODE ? "no node" : "node " + node,
                        what,
                        detail)
                    .stripTrailing()
                + "\n");
  }

  private List<String> matrix(List<Integer> nodesOfGpus) {
    List<List<String>> table = new ArrayList<>();
    List<String> heads = new ArrayList<>(List.of(""));
    gpus.forEach(gpu -> heads.add(gpu.name()));
    table.add(heads);
    for (int a = 0; a < gpus.size(); a++) {
      List<String> cells = new ArrayList<>(List.of(gpus.get(a).name()));
      for (int b = 0; b < gpus.size(); b++) {
        cells.add(a == b ? "-" : link(a, b) + sameNode(nodesOfGpus.get(a), nodesOfGpus.get(b)));
      }
      table.add(cells);
    }
    int width = table.stream().flatMap(List::stream).mapToInt(String::length).max().orElse(0) + 2;
    return table.stream().map(cells -> line(cells, width)).toList();
  }

  /** The first cell is as wide as the states that {@code doctor} begins its lines with. */
  private static String line(List<String> cells, int width) {
    StringBuilder line = new StringBuilder(String.format(Locale.ROOT, "%-8s ", cells.get(0)));
    for (String cell : cells.subList(1, cells.size())) {
      line.append(cell).append(" ".repeat(width - cell.length()));
    }
    return line.toString().stripTrailing() + "\n";
  }

  private String link(int a, int b) {
    return switch (links.between(a, b)) {
      case NVLINK -> "NVLink";
      case NO_NVLINK -> "PCIe";
      case NO_ACCESS -> "no access";
    };
  }

  private static String sameNode(int a, int b) {
    if (a == NO_NODE || b == NO_NODE) {
      return "";
    }
    return a == b ? ", same node" : ", other node";
  }

  /** In the order of the numbers in them, if they differ only there. */
  private static List<String> names(Path folder) {
    List<String> names = new ArrayList<>();
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
      entries.forEach(entry -> names.add(entry.getFileName().toString()));
    } catch (IOException | DirectoryIteratorException e) {
      return List.of();
    }
    names.sort(
        Comparator.comparing((String name) -> name.replaceAll("[0-9]", ""))
            .thenComparing(String::length)
            .thenComparing(Comparator.naturalOrder()));
    return names;
  }

  private static OptionalInt number(Path file) {
    return read(file)
        .map(String::strip)
        .filter(text -> NUMBER.matcher(text).matches())
        .map(text -> OptionalInt.of(Integer.parseInt(text)))
        .orElse(OptionalInt.empty());
  }

  /** Nothing where Linux says nothing: the speed of an interface that is down is an error. */
  private static Optional<String> read(Path file) {
    try {
      return Optional.of(Files.readString(file));
    } catch (IOException e) {
      return Optional.empty();
    }
  }
}
