package io.nvrar;

/** Where a group's buffers live and its collectives run. */
public enum Backend {
  /**
   * The best backend that is available: {@link #CUDA} where it can run on all members, else {@link
   * #CPU}.
   */
  AUTO,
  /** Buffers in host memory; the processes of one host communicate by shared memory. */
  CPU,
  /** Buffers and kernels on NVIDIA GPUs. */
  CUDA
}
