package io.nvrar.internal.binding;

/** Which ranks share a host, as the native library decides it when members connect. */
public final class HostKey {
  /** {@code NVRAR_HOST_BYTES}. */
  private static final int BYTES = 128;

  private HostKey() {}

  /**
   * A text that is equal for two processes if they are on one host, where they share memory: of the
   * kernel's boot id and the namespaces of pids and users. Reads it from the kernel.
   *
   * @throws io.nvrar.BackendUnavailableException if the native library cannot be used
   */
  public static String ofThisProcess() {
    NativeLibraries.ensureAvailable();
    byte[] text = new byte[BYTES];
    NativeStatus.check(NvrarBinding.nvrar_host(text, text.length));
    return NativeStructs.text(text);
  }
}
