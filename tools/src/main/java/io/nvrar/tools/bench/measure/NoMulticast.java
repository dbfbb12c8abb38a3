package io.nvrar.tools.bench.measure;

import java.util.Map;

/**
 * Disables NVLink multicast in the processes of the benchmark, because our kernels do not use it,
 * and some hosts do not allow it in containers.
 */
public final class NoMulticast {
  /** What such a process has in its environment. */
  public static final Map<String, String> ENVIRONMENT =
      Map.of(
          "NCCL_NVLS_ENABLE", "0",
          "TORCH_SYMM_MEM_DISABLE_MULTICAST", "1",
          "NVSHMEM_DISABLE_NVLS", "1");

  private NoMulticast() {}

  /** Whatever this process's environment says. */
  static void in(ProcessBuilder process) {
    process.environment().putAll(ENVIRONMENT);
  }
}
