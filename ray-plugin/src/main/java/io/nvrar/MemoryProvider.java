package io.nvrar;

/** How the members of a group on GPUs reach each other's memory. */
public enum MemoryProvider {
  /**
   * {@link #LOCAL} if all members are in one process, else {@link #NVSHMEM} if all of them can use
   * it, else {@link #IPC}. All members choose the same.
   */
  AUTO(0),
  /**
   * NVSHMEM 3.3.20 or newer. A process has one NVSHMEM world: the members of its first group over
   * NVSHMEM. Its later groups over NVSHMEM must consist of the same members, or of some of them.
   */
  NVSHMEM(1),
  /** CUDA's own memory handles, between the processes of a host. */
  IPC(2),
  /** Plain pointers, between members in one process. */
  LOCAL(3);

  private final int code;

  MemoryProvider(int code) {
    this.code = code;
  }

  /** The number of this provider in the native library and on the wire. */
  public int code() {
    return code;
  }
}
