package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.support.ChildJvm;
import io.nvrar.support.CudaJvm;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What is said where CUDA cannot run, each in a JVM of its own whose driver is the stub. */
@Tag("slow")
class CudaFailuresTest {
  private static final String CANNOT =
      "BackendUnavailableException: the CUDA backend cannot run here: ";
  private static final int JVMS = 12;

  @TempDir private Path scratch;

  static Stream<Arguments> failures() {
    return Stream.of(
        failure(
            "no GPU",
            CANNOT + "NVIDIA's driver is installed, but this process sees no GPU",
            "STUB_CUDA_DEVICES=0"),
        failure(
            "a GPU that is hidden",
            CANNOT
                + "NVIDIA's driver is installed, but this process sees no GPU; CUDA_VISIBLE_DEVICES is \"\"",
            "STUB_CUDA_DEVICES=0",
            "CUDA_VISIBLE_DEVICES="),
        failure(
            "an old driver",
            CANNOT
                + "NVIDIA's driver is too old, it supports CUDA 11.8 and 12.0 is needed; update the driver",
            "STUB_CUDA_DRIVER_VERSION=11080"),
        failure(
            "a driver that does not fit the kernel's",
            CANNOT
                + "cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803: system has unsupported display driver / cuda driver combination)",
            "STUB_CUDA_FAIL=cuInit:803:1"),
        failure(
            "no such ordinal",
            "BackendUnavailableException: there is no GPU 1 in this process, it sees 1, from 0 to 0",
            "STUB_CUDA_DEVICES=1"),
        failure(
            "one GPU under two ordinals",
            "BackendUnavailableException: GPU 1 is the GPU that this process has opened as GPU 0 (UUID abababababababababababababababab); CUDA_VISIBLE_DEVICES is \"0,0\"",
            "STUB_CUDA_DEVICES=2",
            "STUB_CUDA_SAME_UUID=1",
            "CUDA_VISIBLE_DEVICES=0,0"),
        failure(
            "a GPU that another process has for itself",
            "BackendUnavailableException: GPU 0 cannot be used: cuDevicePrimaryCtxRetain failed with CUDA_ERROR_DEVICE_UNAVAILABLE (46: CUDA-capable device(s) is/are busy or unavailable); another process has exclusive use of it (nvidia-smi -q -d COMPUTE)",
            "STUB_CUDA_FAIL=cuDevicePrimaryCtxRetain:46:1"),
        failure(
            "a context that work has broken",
            "CollectiveFatalException: cuStreamSynchronize failed on GPU 0 with CUDA_ERROR_ILLEGAL_ADDRESS (700: an illegal memory access was encountered); work on the GPU has broken this process's context, and the process must end",
            "STUB_CUDA_FAIL=cuStreamSynchronize:700:2"),
        failure(
            "a failure newer than JCuda",
            "CollectiveFatalException: cuMemcpyAsync failed on GPU 0 with CUDA_ERROR_CONTAINED (226: Invalid access of peer GPU memory over nvlink or a hardware error); work on the GPU has broken this process's context, and the process must end",
            "STUB_CUDA_FAIL=cuMemcpyAsync:226:1"),
        failure(
            "a failure that nobody knows",
            "CollectiveException: cuMemAlloc failed on GPU 0 with INVALID CUresult: 998 (998)",
            "STUB_CUDA_FAIL=cuMemAlloc_v2:998:1"),
        failure(
            "a call that the driver refuses",
            "IllegalStateException: cuStreamCreate failed on GPU 0 with CUDA_ERROR_INVALID_VALUE (1: invalid argument)",
            "STUB_CUDA_FAIL=cuStreamCreate:1:1"),
        failure(
            "too little memory",
            "DeviceMemoryException: GPU 0 has no room for a buffer of int32[3], 12 bytes; 8 of its 8 bytes are free",
            "STUB_CUDA_MEMORY=8"));
  }

  private static Arguments failure(String name, String sentence, String... environment) {
    return Arguments.of(name, sentence, List.of(environment));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("failures")
  void aFailureIsOneSentence(String name, String sentence, List<String> environment)
      throws Exception {
    Map<String, String> variables =
        environment.stream()
            .collect(
                Collectors.toMap(
                    variable -> variable.split("=", 2)[0], variable -> variable.split("=", 2)[1]));
    String said = open(variables, "0", "1").end(CudaProcess.FAILED);
    assertThat(said).as(name).isEqualToIgnoringNewLines(sentence);
  }

  @Test
  void whileJCudaStartsTheFilesOfOthersGoWhereTheyAlwaysDo() throws Exception {
    String[] lines =
        CudaJvm.onStub(scratch, Map.of(), TempDirectoryProcess.class).end(0).split("\n");
    assertThat(lines).hasSize(2);
    assertThat(lines[0]).contains("jcuda-").endsWith(" " + scratch + " " + scratch);
    assertThat(lines[1]).isEqualTo(scratch + " " + scratch + " " + scratch);
  }

  @Test
  void aDriverWithoutAFunctionIsASentenceAndNotTheEndOfTheProcess() throws Exception {
    Path incomplete = CudaJvm.stub().resolve("incomplete");
    assertThat(open(Map.of("LD_LIBRARY_PATH", incomplete.toString()), "0").end(CudaProcess.FAILED))
        .isEqualToIgnoringNewLines(
            CANNOT
                + "NVIDIA's driver library libcuda.so.1 lacks a function that JCuda calls (undefined symbol: cuGraphLaunch); update the driver");
  }

  @Test
  void aMachineWithoutADriverSaysWhatToInstall() throws Exception {
    // Whatever this machine has installed: a library of that name that is none.
    Path broken = Files.createDirectory(scratch.resolve("broken"));
    Files.writeString(broken.resolve("libcuda.so.1"), "no library");
    assertThat(open(Map.of("LD_LIBRARY_PATH", broken.toString()), "0").end(CudaProcess.FAILED))
        .startsWith(CANNOT + "the library of NVIDIA's driver cannot be loaded (")
        .contains("libcuda.so.1")
        .endsWith(
            "; install the driver, or start the container with its GPUs (docker run --gpus)\n");
  }

  @Test
  void manyJvmsThatStartAtOnceAllLoadOneWholeLibrary() throws Exception {
    long start = System.currentTimeMillis() + 1500;
    List<ChildJvm> jvms = new ArrayList<>();
    for (int i = 0; i < JVMS; i++) {
      jvms.add(CudaJvm.onStub(scratch, Map.of(), CudaProcess.class, String.valueOf(start), "0"));
    }
    List<String> said = new ArrayList<>();
    for (ChildJvm jvm : jvms) {
      said.add(jvm.end(0));
    }
    assertThat(said)
        .allMatch(text -> text.startsWith("copied\n" + scratch))
        .containsOnly(said.get(0));
    assertThat(scratch.resolve("libJCudaDriver-12.6.0-linux-x86_64.so")).doesNotExist();
  }

  @Test
  void aLibraryThatSomebodyHasPlantedInTheSharedTemporaryDirectoryIsNotLoaded() throws Exception {
    Files.writeString(scratch.resolve("libJCudaDriver-12.6.0-linux-x86_64.so"), "planted");
    assertThat(open(Map.of(), "0").end(0)).startsWith("copied\n");
  }

  @Test
  void aDamagedExtractionIsReplaced() throws Exception {
    String first = open(Map.of(), "0").end(0);
    Path library = Path.of(first.lines().skip(1).findFirst().orElseThrow());
    Files.delete(library);
    Files.writeString(library, "damaged");
    assertThat(open(Map.of(), "0").end(0)).contains("copied\n" + library);
    try (InputStream original = getClass().getResourceAsStream("/lib/" + library.getFileName())) {
      assertThat(original).isNotNull();
      assertThat(Files.readAllBytes(library)).isEqualTo(original.readAllBytes());
    }
  }

  private ChildJvm open(Map<String, String> environment, String... ordinals) throws Exception {
    List<String> args = new ArrayList<>(List.of("0"));
    args.addAll(List.of(ordinals));
    return CudaJvm.onStub(scratch, environment, CudaProcess.class, args.toArray(String[]::new));
  }
}
