package io.nvrar.standalone;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.internal.binding.Links;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.wire.OpenTicket;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Where the groups of tests compute: on the host, or with {@code -Dnvrar.test.backend=cuda} on as
 * many GPUs as {@code -Dnvrar.test.gpus} says, 1 if it says nothing: rank r on GPU r modulo that
 * number. The tests are the same, those with the tag {@code contract}; single ones that only the
 * host can pass have the tag {@code host} as well.
 */
public final class TestBackend {
  /** Properties of this JVM that those of a test's other members need. */
  static final List<String> PROPERTIES = List.of("nvrar.test.backend", "nvrar.test.gpus");

  private static final Backend BACKEND =
      Backend.valueOf(System.getProperty("nvrar.test.backend", "cpu").toUpperCase(Locale.ROOT));
  private static final int GPUS = Integer.getInteger("nvrar.test.gpus", 1);

  /** One for each GPU. */
  private static final List<NativeCommunicator> KEPT = new ArrayList<>();

  /** The inodes of their shared memory. */
  private static final Set<String> KEPT_INODES = new HashSet<>();

  static {
    if (BACKEND == Backend.CUDA) {
      System.setProperty("nvrar.sharedDevices", "true"); // members are threads of one process
      for (int gpu = 0; gpu < GPUS; gpu++) {
        KEPT.add(alone(gpu));
      }
      mapped().map(TestBackend::inode).forEach(KEPT_INODES::add);
    }
  }

  private TestBackend() {}

  /**
   * A group of one, never closed: it keeps a GPU's kernels loaded, which takes longer than some
   * tests let a group take to form.
   */
  private static NativeCommunicator alone(int gpu) {
    Devices.open(BACKEND, gpu);
    NativeCommunicator one = prepareAlone(gpu);
    one.connect(new byte[][] {one.descriptor()});
    return one;
  }

  private static NativeCommunicator prepareAlone(int gpu) {
    byte[] id = NativeCommunicator.uniqueId(BACKEND);
    return NativeCommunicator.prepare(
        "a group of 1", BACKEND, gpu, 0, 1, id, Links.NONE, GroupConfig.defaults());
  }

  /** The shared memory of groups that this process has mapped, but for what it keeps for good. */
  public static List<String> mappedSegments() {
    if (BACKEND == Backend.CUDA) {
      // What a peer could still write to when its group ended here goes when the next is made.
      prepareAlone(0).close();
    }
    return mapped().filter(line -> !KEPT_INODES.contains(inode(line))).toList();
  }

  private static Stream<String> mapped() {
    try {
      return Files.readAllLines(Path.of("/proc/self/maps")).stream()
          .filter(line -> line.contains("/memfd:nvrar"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String inode(String line) {
    return line.split("\\s+", 6)[4];
  }

  public static Backend backend() {
    return BACKEND;
  }

  public static boolean isCuda() {
    return BACKEND == Backend.CUDA;
  }

  /** A rank as its native part alone, ready to be connected. */
  public static NativeCommunicator prepare(OpenTicket ticket, int rank) {
    return NativeCommunicator.prepare(
        ticket.spec().label(),
        BACKEND,
        ordinal(rank),
        rank,
        ticket.worldSize(),
        ticket.uniqueId(),
        new Links(Members.HOST, false, new byte[Links.SECRET_BYTES]),
        ticket.config());
  }

  /** Of the device that a rank computes on. */
  public static int ordinal(int rank) {
    return rank % GPUS;
  }
}
