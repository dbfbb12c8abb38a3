package io.nvrar;

/** What a group's members compute and communicate on. */
public enum Backend {
  /**
   * The best that is available: {@link #CUDA} where it can run on all members, else {@link #CPU}.
   */
  AUTO,
  /** Host memory; shared memory between the processes of a host. */
  CPU,
  /** NVIDIA GPUs. */
  CUDA
}
