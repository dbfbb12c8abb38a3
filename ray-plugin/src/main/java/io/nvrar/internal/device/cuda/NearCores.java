package io.nvrar.internal.device.cuda;

import io.nvrar.internal.CpuList;
import io.nvrar.internal.binding.CpuAffinity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Pins this process to the cores that are near its GPU, those of its NUMA node, if {@code
 * -Dnvrar.pin=true} asks for it: a launch from another node, and every word that host and GPU
 * exchange, crosses the link between the nodes. It is help and no condition: what cannot be pinned
 * runs where it ran.
 */
public final class NearCores {
  /** {@code true}: this process is pinned when it first opens a GPU. */
  public static final String PROPERTY = "nvrar.pin";

  private static final Logger LOG = LoggerFactory.getLogger(NearCores.class);
  private static final Path SYSFS = Path.of("/sys");

  private NearCores() {}

  /** Pins this process, if that is asked for. Called once, for the first GPU that it opens. */
  static void pinIfAsked(GpuContext gpu) {
    if (!Boolean.getBoolean(PROPERTY)) {
      return;
    }
    PciAddress address;
    try {
      address = gpu.pciAddress();
    } catch (RuntimeException e) {
      notPinned(gpu.toString(), String.valueOf(e.getMessage()));
      return;
    }
    pin(SYSFS, gpu.toString(), address);
  }

  /**
   * Takes from all threads of this process the cores that are not near a GPU.
   *
   * @param sysfs {@code /sys}
   * @param gpu its name, for the log
   */
  static void pin(Path sysfs, String gpu, PciAddress address) {
    Path file = address.directory(sysfs).resolve("local_cpulist");
    try {
      CpuList near = CpuList.parse(read(file));
      if (near.isEmpty()) {
        notPinned(gpu, file + " names no cores");
        return;
      }
      CpuList allowed = CpuAffinity.ofThisThread();
      CpuList left = allowed.and(near);
      if (left.isEmpty()) {
        notPinned(
            gpu,
            String.format(
                Locale.ROOT,
                "the cores near it are %s, and this process may use %s",
                near,
                allowed));
        return;
      }
      CpuAffinity.narrow(near);
      LOG.debug("This process is pinned to the cores {} near {}", left, gpu);
    } catch (NoSuchFileException e) {
      notPinned(gpu, "there is no " + file);
    } catch (IOException e) {
      notPinned(gpu, String.valueOf(e.getMessage()));
    } catch (IllegalArgumentException e) {
      notPinned(gpu, file + ": " + e.getMessage());
    }
  }

  /** What goes wrong with a file of the kernel's rarely names the file. */
  private static String read(Path file) throws IOException {
    try {
      return Files.readString(file);
    } catch (NoSuchFileException e) {
      throw e;
    } catch (IOException e) {
      throw new IOException(file + " cannot be read: " + e.getMessage(), e);
    }
  }

  private static void notPinned(String gpu, String reason) {
    LOG.warn("This process is not pinned near {}: {}", gpu, reason);
  }
}
