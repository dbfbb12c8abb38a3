package io.nvrar.tools;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.internal.binding.NativeReport;
import io.nvrar.internal.device.cuda.CudaDevices;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * Prints what this JVM finds: its own version, the native library, the backends, GPUs, NVSHMEM,
 * what links between hosts would use, and the machine by NUMA node. The exit code is 0 if the CPU
 * backend can run, and links can be as the options ask. {@code bin/nvrar doctor} prints the machine
 * and its tools before that.
 */
@Command(
    name = "doctor",
    mixinStandardHelpOptions = true,
    description = "Say what was found, what is missing and what to do.")
public final class Doctor implements NvrarCommand {
  private static final Path GPU_DRIVER = Path.of("/proc/driver/nvidia/version");
  private static final Path SYSFS = Path.of("/sys");

  @Spec private @Nullable CommandSpec spec;

  @Option(
      names = "--link-interface",
      paramLabel = "NAME",
      defaultValue = "",
      description =
          "The links.networkInterface of a group: say which address of this host it means.")
  private String linkInterface = "";

  @Option(
      names = "--link-ports",
      paramLabel = "FIRST-LAST",
      description = "The links.ports of a group: say how many of them are free.")
  private @Nullable String linkPorts;

  /** For {@link java.util.ServiceLoader}. */
  public Doctor() {}

  @Override
  public Integer call() {
    PrintWriter out = Objects.requireNonNull(spec).commandLine().getOut();
    SharedLibraries libraries = SharedLibraries.ofProcess();
    line(
        out,
        "ok",
        "JVM",
        System.getProperty("java.vm.version") + ", " + System.getProperty("java.home"));
    line(out, "ok", "JNA", NativeReport.jna());
    @Nullable BackendUnavailableException cpu = Devices.unavailabilityCause(Backend.CPU);
    if (cpu == null) {
      line(out, "ok", "native library", NativeReport.library());
      line(out, "ok", "CPU backend", "can run");
    } else {
      line(out, "missing", "CPU backend", String.valueOf(cpu.getMessage()));
    }
    @Nullable BackendUnavailableException cuda = Devices.unavailabilityCause(Backend.CUDA);
    line(
        out,
        cuda == null ? "ok" : "none",
        "CUDA backend",
        cuda == null ? "can run" : String.valueOf(cuda.getMessage()));
    List<CudaReport.Gpu> gpus =
        CudaDevices.unavailabilityCause() == null ? CudaReport.gpus() : List.of();
    if (!gpus.isEmpty()) {
      gpus.forEach(gpu -> line(out, "ok", gpu.name(), gpu.model() + ", " + gpu.capacity()));
      peerAccess(out, CudaReport.pairs(CudaReport.Link.NO_ACCESS));
      nvlink(
          out,
          CudaReport.pairs(CudaReport.Link.NVLINK),
          CudaReport.pairs(CudaReport.Link.NO_NVLINK));
    }
    optional(out, "GPU driver", SharedLibraries.firstLine(GPU_DRIVER), "no " + GPU_DRIVER);
    library(out, "libcuda", libraries, "libcuda.so.1");
    nvshmem(out);
    boolean canLink =
        LinkReport.of(links(), (state, what, detail) -> line(out, state, what, detail));
    out.print(MachineReport.of(SYSFS, gpus, CudaReport::link));
    out.flush();
    return cpu == null && canLink ? 0 : Main.FAILED;
  }

  private GroupConfig.Links links() {
    try {
      GroupConfig.Builder config =
          GroupConfig.builder().links(links -> links.networkInterface(linkInterface));
      if (linkPorts != null) {
        int dash = linkPorts.indexOf('-');
        int first = Integer.parseInt(linkPorts.substring(0, Math.max(dash, 0)));
        int last = Integer.parseInt(linkPorts.substring(dash + 1));
        config.links(links -> links.ports(first, last));
      }
      return config.build().links();
    } catch (NumberFormatException e) {
      throw new ParameterException(
          Objects.requireNonNull(spec).commandLine(),
          String.format(
              Locale.ROOT, "--link-ports is '%s', must be a range such as 4000-4015", linkPorts),
          e);
    } catch (IllegalArgumentException e) {
      throw new ParameterException(
          Objects.requireNonNull(spec).commandLine(), String.valueOf(e.getMessage()), e);
    }
  }

  private static void peerAccess(PrintWriter out, List<String> pairsWithout) {
    line(
        out,
        pairsWithout.isEmpty() ? "ok" : "none",
        "peer access",
        pairsWithout.isEmpty()
            ? "every GPU here can access every other one's memory"
            : String.join(", ", pairsWithout)
                + " cannot access each other's memory and cannot be in one group (nvidia-smi topo -p2p rw)");
  }

  private static void nvlink(PrintWriter out, List<String> with, List<String> without) {
    if (!with.isEmpty()) {
      boolean all = without.isEmpty() && CudaReport.pairs(CudaReport.Link.NO_ACCESS).isEmpty();
      line(
          out,
          "ok",
          "NVLink",
          all
              ? "a group may have any of the GPUs here"
              : "a group may have " + String.join(", ", with) + " together");
    }
    if (!without.isEmpty()) {
      line(
          out,
          "none",
          "NVLink",
          "no group may have "
              + String.join(", ", without)
              + " together: there is no NVLink between them, and over PCIe a packet may not arrive whole (nvidia-smi topo -m)");
    }
  }

  // Uses the same search as a group, so that it finds the library that a group would use.
  private static void nvshmem(PrintWriter out) {
    try {
      line(out, "ok", "NVSHMEM", NativeReport.nvshmem());
    } catch (BackendUnavailableException e) {
      line(out, "none", "NVSHMEM", e.getMessage() + "; without it GPU groups use CUDA IPC");
    }
  }

  private static void library(
      PrintWriter out, String what, SharedLibraries libraries, String name) {
    optional(out, what, libraries.find(name), "no " + name + " in " + libraries.places());
  }

  /** Reports something that only GPUs need; its absence is not an error. */
  private static void optional(
      PrintWriter out, String what, Optional<String> found, String absence) {
    line(
        out,
        found.isPresent() ? "ok" : "none",
        what,
        found.orElse(absence + "; only GPUs need it"));
  }

  private static void line(PrintWriter out, String state, String what, String detail) {
    out.printf("%-8s %-16s %s%n", state, what, detail);
  }
}
