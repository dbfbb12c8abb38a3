package io.nvrar;

/** Where a group's buffers live and its collectives run. */
public enum Backend {
  /**
   * {@link #CUDA} if it can run where the ticket is made, else {@link #CPU}. With Ray that is the
   * actor of rank 0, which must have a GPU from Ray. A member that cannot run the group's backend
   * cannot join.
   */
  AUTO,
  /** Buffers in host memory; the processes of one host communicate by shared memory. */
  CPU,
  /** Buffers and kernels on NVIDIA GPUs. */
  CUDA
}
