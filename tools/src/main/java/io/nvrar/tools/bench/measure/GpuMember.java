package io.nvrar.tools.bench.measure;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.device.Devices;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.Settings;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** One member on its GPU: measures the cost of its group, then runs the measurement. */
final class GpuMember {
  /** The mode of a batch that is the cost of a group: the time of its creation, and its bytes. */
  static final String CREATE = "create";

  private static final double NANOS_PER_MICRO = 1e3;

  private GpuMember() {}

  static List<Batch> run(Settings settings, GroupTicket ticket, int rank, Path barrierFile)
      throws IOException {
    SpinBarrier barrier = SpinBarrier.open(barrierFile, rank, settings.processes());
    barrier.await();
    long begin = System.nanoTime();
    // Includes the start of the driver and of the GPU's context, which every program has to pay.
    int gpu = settings.gpuOf(rank);
    Device opened = Devices.open(Backend.CUDA, gpu);
    long openedNanos = System.nanoTime() - begin;
    // Not before all ranks have reached this point, because ranks may share a GPU.
    barrier.await();
    long freeBefore = CudaBench.freeBytes(opened);
    barrier.await();
    long joining = System.nanoTime();
    try (CollectiveGroup group = Groups.join(ticket, rank, gpu)) {
      double us = (openedNanos + System.nanoTime() - joining) / NANOS_PER_MICRO;
      barrier.await();
      long bytes = Math.max(0, freeBefore - CudaBench.freeBytes(opened));
      barrier.await();
      List<Batch> batches = new ArrayList<>();
      batches.add(new Batch(bytes, ResultLine.OUT_OF_PLACE, CREATE, us, 0));
      // On the group's device, which is a different object if ranks share a GPU.
      try (BetweenKernels between = new BetweenKernels(group.device(), settings)) {
        batches.addAll(new GpuMemberRun(group, settings, barrier, between::of).run());
      }
      return batches;
    }
  }
}
