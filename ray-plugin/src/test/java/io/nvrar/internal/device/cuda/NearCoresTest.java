package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.internal.CpuList;
import io.nvrar.internal.binding.CpuAffinity;
import io.nvrar.support.ChildJvm;
import io.nvrar.support.CudaJvm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes that are pinned, each a JVM of its own; what a GPU's cores are, a folder says. */
class NearCoresTest {
  private static final String NOT_PINNED = "This process is not pinned near GPU 3: ";

  @TempDir private Path scratch;

  private CpuList all = CpuList.parse("");
  private int first;
  private int last;

  @BeforeEach
  void thereAreTwoCores() throws Exception {
    all = CpuAffinity.ofThisThread();
    assumeTrue(all.size() > 1, "this process may use one core only, so nothing can be pinned");
    BitSet cores = BitSet.valueOf(all.toMask());
    first = cores.nextSetBit(0);
    last = cores.length() - 1;
  }

  @Test
  void allThreadsAreOnTheCoresNearTheGpuThatTheProcessMayUse() throws Exception {
    near(last + ",50000-50007\n");
    List<String> said = threads("" + last);
    assertThat(said).contains("early has " + last, "late has " + last, "java has " + last);
    assertThat(said).hasSizeGreaterThan(8).allMatch(line -> line.endsWith(" has " + last));
  }

  @Test
  void aThreadThatMayUseNoneOfTheCoresKeepsThoseThatItHas() throws Exception {
    near(Integer.toString(last));
    assertThat(threads("" + first))
        .contains("narrow has " + first, "early has " + last, "late has " + last);
  }

  @Test
  void aThreadGetsNoCoreThatItCouldNotUse() throws Exception {
    near(all.toString());
    assertThat(threads("" + first))
        .contains("narrow has " + first, "early has " + all, "late has " + all);
  }

  @Test
  void coresThatTheProcessMayNotUseAreNotTaken() throws Exception {
    near("50000-50007");
    assertThat(threads(all.toString()))
        .allMatch(line -> line.endsWith(" has " + all) || line.contains(NOT_PINNED))
        .anyMatch(
            line ->
                line.endsWith(
                    NOT_PINNED
                        + "the cores near it are 50000-50007, and this process may use "
                        + all));
  }

  @Test
  void aMachineThatDoesNotSayWhatIsNearIsLeftAsItIs() throws Exception {
    assertThat(threads(all.toString()))
        .allMatch(line -> line.endsWith(" has " + all) || line.contains(NOT_PINNED))
        .anyMatch(line -> line.endsWith(NOT_PINNED + "there is no " + file()));
    near("everywhere");
    assertThat(threads(all.toString()))
        .allMatch(line -> line.endsWith(" has " + all) || line.contains(NOT_PINNED))
        .anyMatch(
            line ->
                line.contains(NOT_PINNED + file() + ": a list of cores is 'everywhere', must be"));
    near("\n");
    assertThat(threads(all.toString()))
        .anyMatch(line -> line.endsWith(NOT_PINNED + file() + " names no cores"));
    Files.delete(file());
    Files.createDirectory(file());
    assertThat(threads(all.toString()))
        .anyMatch(line -> line.endsWith(NOT_PINNED + file() + " cannot be read: Is a directory"));
  }

  @Test
  void aProcessThatIsToBePinnedIsSoOnceNearTheFirstGpuThatItOpens() throws Exception {
    // No machine has a GPU there.
    Map<String, String> environment =
        new HashMap<>(
            Map.of(
                "STUB_CUDA_DEVICES", "3",
                "STUB_CUDA_FIRST_DEVICE", "26",
                "STUB_CUDA_PCI_DOMAIN", "65534"));
    assertThat(open(environment)).doesNotContain("pinned");
    environment.put("JAVA_TOOL_OPTIONS", "-Dnvrar.pin=true");
    assertThat(open(environment))
        .containsOnlyOnce("pinned")
        .contains(
            "This process is not pinned near GPU 1: there is no /sys/bus/pci/devices/fffe:1b:00.0/local_cpulist\n");
  }

  @Test
  void aGpuWhoseAddressTheDriverDoesNotSayIsOpenedAllTheSame() throws Exception {
    assertThat(
            open(
                Map.of(
                    "STUB_CUDA_DEVICES", "3",
                    "STUB_CUDA_FAIL", "cuDeviceGetAttribute:1:1",
                    "JAVA_TOOL_OPTIONS", "-Dnvrar.pin=true")))
        .containsOnlyOnce("pinned")
        .contains(
            "This process is not pinned near GPU 1: cuDeviceGetAttribute failed on GPU 1 with ")
        .contains("copied\n");
  }

  private String open(Map<String, String> environment) throws Exception {
    return CudaJvm.onStub(scratch, environment, CudaProcess.class, "0", "1", "0", "1", "2").end(0);
  }

  private void near(String cores) throws Exception {
    Files.createDirectories(file().getParent());
    Files.writeString(file(), cores);
  }

  private Path file() {
    return scratch.resolve("bus/pci/devices/0001:1a:02.0/local_cpulist");
  }

  /** The threads of a process that has been pinned, and what it has logged. */
  private List<String> threads(String narrow) throws Exception {
    try (ChildJvm jvm = CudaJvm.start(scratch, PinnedProcess.class, scratch.toString(), narrow)) {
      return jvm.end(0).lines().filter(line -> !line.startsWith("NOTE: ")).toList();
    }
  }
}
