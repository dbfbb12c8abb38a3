package io.nvrar.internal.device.cuda;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import jcuda.driver.CUdeviceptr;
import org.jspecify.annotations.Nullable;

/**
 * Memory of closed buffers that waits for the next ones of its size. For GPUs that several members
 * of one process share, which is for tests: the driver frees memory when nothing runs on the GPU,
 * and there another member's call may run until the one that frees makes its own.
 */
final class KeptMemory {
  private final Map<Long, Deque<CUdeviceptr>> ofSize = new HashMap<>();

  /** Memory of that many bytes; null if there is none. */
  synchronized @Nullable CUdeviceptr take(long sizeBytes) {
    Deque<CUdeviceptr> kept = ofSize.get(sizeBytes);
    return kept == null ? null : kept.poll();
  }

  synchronized void keep(long sizeBytes, CUdeviceptr memory) {
    ofSize.computeIfAbsent(sizeBytes, size -> new ArrayDeque<>()).push(memory);
  }
}
