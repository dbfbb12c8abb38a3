package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.device.Devices;
import io.nvrar.support.ChildJvm;
import io.nvrar.support.CudaJvm;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What is said of a group on GPUs that cannot be made, and of calls that one cannot make, on the
 * stub of the driver, which runs no kernel.
 */
@Tag("slow")
class CudaGroupFailuresTest {
  @TempDir private Path scratch;

  @BeforeEach
  void theLibraryHoldsKernels() {
    BackendUnavailableException cause = Devices.unavailabilityCause(Backend.CUDA);
    assumeFalse(
        cause != null && String.valueOf(cause.getMessage()).contains("holds no GPU kernels"),
        "the library was built without kernels");
  }

  @Test
  void aCallIsRefusedInWordsThatNameBothSides() throws Exception {
    assertThat(group(Map.of("STUB_CUDA_DEVICES", "2"), "LOCAL", "0", "1").end(0))
        .contains(
            "rank 0 joins: done\nrank 1 joins: done\n",
            "a host buffer: IllegalArgumentException: send lives on host, the group computes on GPU 0\n",
            "a pinned buffer: IllegalArgumentException: recv lives on host, the group computes on GPU 0\n",
            "another GPU's buffer: IllegalArgumentException: send lives on GPU 1, the group computes on GPU 0\n",
            "AVG of integers: IllegalArgumentException: op is AVG, which is for floats, and send holds INT32\n",
            "a host stream: IllegalArgumentException: the stream belongs to host, the group computes on GPU 0\n",
            "another GPU's stream: IllegalArgumentException: the stream belongs to GPU 1, the group computes on GPU 0\n");
  }

  @Test
  void aGpuThatIsTakenTwiceIsNamedWithBothRanks() throws Exception {
    assertThat(group(Map.of("STUB_CUDA_DEVICES", "2"), "LOCAL", "0", "0").end(0))
        .contains(
            "ranks 0 and 1 have the same GPU, GPU-abababab-abab-abab-abab-ababababab00: every rank needs one of its own");
  }

  @Test
  void gpusWithoutPeerAccessAreNamedWithTheirRanks() throws Exception {
    assertThat(
            group(Map.of("STUB_CUDA_DEVICES", "2", "STUB_CUDA_PEER_ACCESS", "0"), "LOCAL", "0", "1")
                .end(0))
        .containsPattern(
            "the GPU of rank [01] \\(pid \\d+, GPU-[0-9a-f-]+\\) cannot access the memory of the GPU of rank [01] \\(pid \\d+, GPU-[0-9a-f-]+\\): there is no peer access between them \\(see nvidia-smi topo -p2p rw\\)");
  }

  @Test
  void aGpuThatIsNotThereIsNamed() throws Exception {
    assertThat(group(Map.of("STUB_CUDA_DEVICES", "2"), "LOCAL", "0", "2").end(0))
        .contains(
            "rank 1 joins: BackendUnavailableException: there is no GPU 2 in this process, it sees 2, from 0 to 1")
        .containsPattern(
            "rank 0 joins: CollectiveException: rank 1 \\(.*\\) could not join group 'g': there is no GPU 2 in this process");
  }

  @Test
  void aMachineWithoutGpusMakesNoTicketOfAGroupOnGpus() throws Exception {
    assertThat(group(Map.of("STUB_CUDA_DEVICES", "0"), "AUTO", "0").end(CudaGroupProcess.FAILED))
        .isEqualTo(
            "BackendUnavailableException: the CUDA backend cannot run here: NVIDIA's driver is installed, but this process sees no GPU\n");
  }

  @Test
  void anNvshmemThatIsNamedAndNotThereIsSaidBeforeAnythingIsMade() throws Exception {
    assertThat(
            group(Map.of("JAVA_TOOL_OPTIONS", "-Dnvrar.nvshmem.home=/nonexistent"), "NVSHMEM", "0")
                .end(CudaGroupProcess.FAILED))
        .contains(
            "BackendUnavailableException: NVSHMEM 3.3.20 or newer is not here (pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME). Tried: /nonexistent: not there\n");
  }

  @Test
  void aGroupThatTheDriverDestroysTakesItsStreamWithIt() throws Exception {
    // A JVM of another version may have warned of something before.
    assertThat(CudaJvm.onStub(scratch, Map.of(), DestroyedGroups.class).end(0))
        .endsWith("living: 0 more\n");
  }

  @Test
  void aFailureIsHeardOnceByACopyAlsoWhenTheStreamHasGoneWithItsGroup() throws Exception {
    assertThat(CudaJvm.onStub(scratch, Map.of(), DestroyedGroups.class, "failed").end(0))
        .endsWith(
            "call: CollectiveException\nfirst copy: CollectiveException\nsecond copy: done\n"
                    .repeat(4)
                + "living: 0 more\n");
  }

  private ChildJvm group(Map<String, String> environment, String... args) throws Exception {
    return CudaJvm.onStub(scratch, environment, CudaGroupProcess.class, args);
  }
}
