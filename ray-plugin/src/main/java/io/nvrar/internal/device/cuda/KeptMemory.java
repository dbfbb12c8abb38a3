package io.nvrar.internal.device.cuda;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import jcuda.driver.CUdeviceptr;
import org.jspecify.annotations.Nullable;

/**
 * A pool of the memory of closed buffers, reused for new buffers of the same size. Used only on
 * GPUs that several members of one process share, in tests: the driver frees memory only when
 * nothing runs on the GPU, and another member's call may run until the freeing member makes its own
 * call, which would be a deadlock.
 */
final class KeptMemory {
  private final Map<Long, Deque<CUdeviceptr>> ofSize = new HashMap<>();

  /** Takes memory of that many bytes; null if there is none. */
  synchronized @Nullable CUdeviceptr take(long sizeBytes) {
    Deque<CUdeviceptr> kept = ofSize.get(sizeBytes);
    return kept == null ? null : kept.poll();
  }

  synchronized void keep(long sizeBytes, CUdeviceptr memory) {
    ofSize.computeIfAbsent(sizeBytes, size -> new ArrayDeque<>()).push(memory);
  }
}
