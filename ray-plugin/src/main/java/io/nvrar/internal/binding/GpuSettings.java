package io.nvrar.internal.binding;

import io.nvrar.Backend;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What of groups on GPUs each process has for itself.
 *
 * @param nvshmemHome {@code -Dnvrar.nvshmem.home}: the library of NVSHMEM, or where it lies; null:
 *     it is looked for
 * @param sharedDevices {@code -Dnvrar.sharedDevices}: whether several members may be on one GPU;
 *     for tests
 */
record GpuSettings(@Nullable String nvshmemHome, boolean sharedDevices) {
  static final String NVSHMEM_HOME_PROPERTY = "nvrar.nvshmem.home";
  static final String SHARED_DEVICES_PROPERTY = "nvrar.sharedDevices";

  private static final int TEXT_BYTES = 4096;

  /** Those of this process. */
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
   * Has the native library open the NVSHMEM that is named, before a group of the backend looks for
   * one.
   *
   * @throws io.nvrar.BackendUnavailableException if there is none that is of use
   */
  void apply(Backend backend) {
    if (backend == Backend.CUDA && nvshmemHome != null) {
      findNvshmem();
    }
  }

  /**
   * The NVSHMEM that groups of this process use, such as {@code 3.4.5, /usr/lib/...}.
   *
   * @throws io.nvrar.BackendUnavailableException if there is none that is of use, with every place
   *     that was tried
   */
  String findNvshmem() {
    NativeLibraries.ensureAvailable();
    String place = nvshmemHome == null ? "" : nvshmemHome;
    byte[] text = new byte[TEXT_BYTES];
    NativeStatus.check(
        NvrarBinding.nvrar_find_nvshmem(
            (place + "\0").getBytes(StandardCharsets.UTF_8), text, text.length));
    int end = 0;
    while (text[end] != 0) {
      end++;
    }
    return new String(text, 0, end, StandardCharsets.UTF_8);
  }
}
