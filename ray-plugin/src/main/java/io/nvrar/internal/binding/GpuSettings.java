package io.nvrar.internal.binding;

import io.nvrar.Backend;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The settings of groups on GPUs that apply to a process, not to a group.
 *
 * @param nvshmemHome {@code -Dnvrar.nvshmem.home}: NVSHMEM's library or its directory; null: it is
 *     searched for
 * @param sharedDevices {@code -Dnvrar.sharedDevices}: whether several members may share one GPU;
 *     for tests
 */
record GpuSettings(@Nullable String nvshmemHome, boolean sharedDevices) {
  static final String NVSHMEM_HOME_PROPERTY = "nvrar.nvshmem.home";
  static final String SHARED_DEVICES_PROPERTY = "nvrar.sharedDevices";

  private static final int TEXT_BYTES = 4096;

  /** The settings of this process. */
  static GpuSettings ofProcess() {
    return of(System.getProperties());
  }

  static GpuSettings of(Map<?, ?> properties) {
    Object home = properties.get(NVSHMEM_HOME_PROPERTY);
    return new GpuSettings(
        home instanceof String text && !text.isEmpty() ? text : null,
        "true".equals(properties.get(SHARED_DEVICES_PROPERTY)));
  }

  /**
   * Makes the native library open the configured NVSHMEM, before a group of the backend searches
   * for one.
   *
   * @throws io.nvrar.BackendUnavailableException if it cannot be used
   */
  void apply(Backend backend) {
    if (backend == Backend.CUDA && nvshmemHome != null) {
      findNvshmem();
    }
  }

  /**
   * The NVSHMEM that groups of this process use, such as {@code 3.4.5, /usr/lib/...}.
   *
   * @throws io.nvrar.BackendUnavailableException if none can be used, with every place that was
   *     tried
   */
  String findNvshmem() {
    NativeLibraries.ensureAvailable();
    String place = nvshmemHome == null ? "" : nvshmemHome;
    byte[] text = new byte[TEXT_BYTES];
    NativeStatus.check(
        NvrarBinding.nvrar_find_nvshmem(
            (place + "\0").getBytes(StandardCharsets.UTF_8), text, text.length));
    return NativeStructs.text(text);
  }
}
