package io.nvrar.internal.binding;

import io.nvrar.CollectiveException;

/**
 * Keeps sockets of the JDK from programs that native code of this process starts. A program that
 * has inherited a socket keeps it open when this process is killed.
 */
public final class CloseOnExec {
  private CloseOnExec() {}

  /**
   * Sets close-on-exec on TCP sockets of this process; does nothing if it has not loaded the native
   * library.
   *
   * @param remotePort 0 for sockets that listen at the local port
   * @return whether there was such a socket; one whose connection has ended has no remote port
   * @throws CollectiveException if the descriptors of this process cannot be read
   */
  public static boolean set(int localPort, int remotePort) {
    if (!NativeLibraries.isLoaded()) {
      return false;
    }
    try {
      NativeStatus.check(NvrarBinding.nvrar_close_on_exec(localPort, remotePort));
      return true;
    } catch (IllegalArgumentException e) {
      return false;
    }
  }
}
