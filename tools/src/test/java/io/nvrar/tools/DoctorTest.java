package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.binding.NvrarBinding;
import io.nvrar.support.CudaJvm;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("slow")
class DoctorTest {
  @Test
  void machineThatRunsTheseTestsCanRunTheCpuBackend() {
    StringWriter out = new StringWriter();
    int code = Main.run(new PrintWriter(out, true), new PrintWriter(out, true), "doctor");
    assertThat(out.toString())
        .containsPattern(
            "ok +native library +/.*libnvrar\\.so, build \\S+, ABI " + NvrarBinding.ABI_VERSION)
        .containsPattern("ok +JNA +5\\.8\\.0")
        .containsPattern("ok +CPU backend")
        .containsPattern("(ok|none) +libcuda");
    assertThat(code).isZero();
  }

  @Test
  void gpusAreListedAndThosePairsThatCannotReachEachOtherAreNamed(@TempDir Path scratch)
      throws Exception {
    String said =
        doctor(scratch, Map.of("STUB_CUDA_DEVICES", "3", "STUB_CUDA_MEMORY", "1610612736"));
    assertThat(said)
        .containsPattern(
            "ok +GPU 0 +stub 0 \\(host memory, no GPU\\), 1\\.5 GiB, compute capability 9\\.0\n")
        .containsPattern("ok +GPU 2 +stub 2 ")
        .doesNotContain("GPU 3")
        .containsPattern("ok +peer access +every GPU here can access every other one's memory\n")
        .containsPattern(
            "this machine by NUMA node:\n(.*\n)*(no node|node \\d+) +GPU 2 +stub 2 \\(host memory, no GPU\\), 0000:02:00\\.0\n");
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "3", "STUB_CUDA_PEER_ACCESS", "0")))
        .containsPattern(
            "none +peer access +GPU 0 and GPU 1, GPU 0 and GPU 2, GPU 1 and GPU 2 cannot access each other's memory and cannot be in one group \\(nvidia-smi topo -p2p rw\\)\n");
  }

  @Test
  void pairsOfGpusWithoutNvlinkAreSaidToBeNoGroup(@TempDir Path scratch) throws Exception {
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "3")))
        .containsPattern("ok +NVLink +a group may have any of the GPUs here\n");
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "3", "STUB_CUDA_PCIE", "0-2,1-2")))
        .containsPattern("ok +peer access +every GPU here can access every other one's memory\n")
        .containsPattern("ok +NVLink +a group may have GPU 0 and GPU 1 together\n")
        .containsPattern(
            "from GPU to GPU:\n +GPU 0 +GPU 1 +GPU 2\nGPU 0 +- +NVLink.* PCIe.*\nGPU 1 +NVLink.* - +PCIe.*\nGPU 2 +PCIe.* PCIe.* -\n")
        .containsPattern(
            "none +NVLink +no group may have GPU 0 and GPU 2, GPU 1 and GPU 2 together: there is no NVLink between them, and over PCIe a packet may not arrive whole \\(nvidia-smi topo -m\\)\n");
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "2", "STUB_CUDA_PEER_ACCESS", "0")))
        .doesNotContain("NVLink");
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "1")))
        .doesNotContain("NVLink")
        .doesNotContain("from GPU to GPU");
  }

  @Test
  void whatKeepsGpusFromBeingUsedIsSaidInOneLineEach(@TempDir Path scratch) throws Exception {
    String reason = "CUDA backend +the CUDA backend cannot run here: ";
    String noKernels = "this build of libnvrar holds no GPU kernels, it was made without nvcc";
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DEVICES", "0")))
        .containsPattern(
            String.format(
                Locale.ROOT,
                "none +%s(%s|NVIDIA's driver is installed, but this process sees no GPU)",
                reason,
                noKernels))
        .doesNotContain("peer access");
    assertThat(doctor(scratch, Map.of("STUB_CUDA_DRIVER_VERSION", "11080")))
        .containsPattern(
            String.format(
                Locale.ROOT,
                "none +%s(%s|NVIDIA's driver is too old, it supports CUDA 11\\.8 and 12\\.0 is needed; update the driver\n)",
                reason,
                noKernels));
    // Whatever this machine has installed: a library of that name that is none.
    Path broken = Files.createDirectory(scratch.resolve("broken"));
    Files.writeString(broken.resolve("libcuda.so.1"), "no library");
    assertThat(doctor(scratch, Map.of("LD_LIBRARY_PATH", broken.toString())))
        .containsPattern(
            String.format(
                Locale.ROOT,
                "none +%s(%s|the library of NVIDIA's driver cannot be loaded \\(.*libcuda\\.so\\.1.*\\); install the driver, or start the container with its GPUs \\(docker run --gpus\\)\n)",
                reason,
                noKernels));
  }

  @Test
  void theNvshmemIsTheOneThatAGroupWouldOpen(@TempDir Path scratch) throws Exception {
    Path stub = CudaJvm.stub().resolveSibling("stub_nvshmem").resolve("whole");
    Path home = scratch.resolve("nvshmem");
    String name = "libnvshmem_host.so.3";
    Files.copy(stub.resolve(name), Files.createDirectories(home.resolve("lib")).resolve(name));
    assertThat(doctor(scratch, Map.of("NVSHMEM_HOME", home.toString())))
        .containsPattern("ok +NVSHMEM +3\\.4\\.5, " + home + "/lib/libnvshmem_host\\.so\\.3\n");
    assertThat(
            doctor(
                scratch,
                Map.of(
                    "JAVA_TOOL_OPTIONS",
                    "-Dnvrar.nvshmem.home=" + home,
                    "STUB_NVSHMEM_VERSION",
                    "3.2.5")))
        .containsPattern(
            String.format(
                Locale.ROOT,
                "none +NVSHMEM +NVSHMEM 3\\.3\\.20 or newer is not here .* Tried: %s/lib/libnvshmem_host\\.so\\.3: is NVSHMEM 3\\.2\\.5; without it GPU groups use CUDA IPC\n",
                home));
  }

  @Test
  void whatLinksWouldUseIsSaidAndWhatTheyAreAskedToUseIsLookedFor() throws IOException {
    assertThat(run(0))
        .containsPattern("ok +link address +the one from which a member reaches rank 0, ")
        .containsPattern("ok +link ports +any free ones")
        .containsPattern("ok +link encryption +OpenSSL [13]\\..*, /.*libcrypto\\.so");
    assertThat(run(0, "--link-interface", "lo"))
        .containsPattern(
            "ok +link address +lo (127\\.0\\.0\\.1|0:.*:1), by links\\.networkInterface lo\n");
    assertThat(run(Main.FAILED, "--link-interface", "203.0.113.0/24"))
        .containsPattern(
            "missing +link address +links\\.networkInterface is '203\\.0\\.113\\.0/24', but this host has no such address; it has .*127\\.0\\.0\\.1");
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      int port = taken.getLocalPort();
      assertThat(
              run(Main.FAILED, "--link-interface", "127.0.0.1", "--link-ports", port + "-" + port))
          .containsPattern(
              String.format(
                  Locale.ROOT, "missing +link ports +%d to %d, of which 0 are free", port, port));
      int last = Math.min(port + 100, 65535);
      assertThat(run(0, "--link-interface", "127.0.0.1", "--link-ports", (port - 100) + "-" + last))
          .containsPattern(
              String.format(
                  Locale.ROOT, "ok +link ports +%d to %d, of which [1-9]", port - 100, last));
    }
  }

  @ParameterizedTest
  @CsvSource({
    "--link-ports, 7-6, links.ports are 7 to 6",
    "--link-ports, many, --link-ports is 'many'",
    "--link-interface, 10.0.0.0/33, links.networkInterface is '10.0.0.0/33'"
  })
  void optionsOfLinksThatAGroupWouldRefuseAreRefused(String option, String value, String said) {
    assertThat(run(2, option, value)).contains(said);
  }

  private static String run(int code, String... options) {
    StringWriter out = new StringWriter();
    String[] arguments =
        Stream.concat(Stream.of("doctor"), Stream.of(options)).toArray(String[]::new);
    assertThat(Main.run(new PrintWriter(out, true), new PrintWriter(out, true), arguments))
        .as("%s", out)
        .isEqualTo(code);
    return out.toString();
  }

  private static String doctor(Path scratch, Map<String, String> environment) throws Exception {
    return CudaJvm.onStub(scratch, environment, Main.class, "doctor").end(0);
  }

  @Test
  void libraryIsFoundInTheFirstDirectoryThatHasIt(@TempDir Path directory) throws IOException {
    Path first = Files.createDirectory(directory.resolve("first"));
    Path second = Files.createDirectory(directory.resolve("second"));
    Files.createFile(second.resolve("libx.so.1.2"));
    Files.createSymbolicLink(second.resolve("libx.so.1"), Path.of("libx.so.1.2"));
    SharedLibraries libraries = SharedLibraries.of(first + "::" + second);
    assertThat(libraries.find("libx.so.1"))
        .contains(
            second.resolve("libx.so.1") + " -> " + second.toRealPath().resolve("libx.so.1.2"));
    assertThat(libraries.find("liby.so.1")).isEmpty();
    assertThat(libraries.places()).startsWith(first + ", " + second + ", /usr/lib");
  }
}
