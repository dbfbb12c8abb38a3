package io.nvrar.tools.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.tools.bench.setup.TestSettings;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class MemberProcessTest {
  @Test
  void jvmOfAMemberHasNoNvlinkMulticastAndIsToldItsRank() {
    ProcessBuilder starting =
        MemberProcess.starting(1, TestSettings.onGpus(2, 0, -1, 30), Path.of("/nowhere/barrier"));
    assertThat(starting.environment().get("NCCL_NVLS_ENABLE")).isEqualTo("0");
    assertThat(starting.environment().get("TORCH_SYMM_MEM_DISABLE_MULTICAST")).isEqualTo("1");
    assertThat(starting.environment().get("NVSHMEM_DISABLE_NVLS")).isEqualTo("1");
    assertThat(String.join(" ", starting.command()))
        .contains("bench --member 1 --barrier /nowhere/barrier");
  }
}
