package io.nvrar.tools.bench.measure;

import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.FusedValues;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Mode.Between;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The measurement of one member on a GPU, with the same steps as
 * native/bench/gpu/stream_measure.cpp. {@link JavaRun} combines the results of the ranks.
 */
final class GpuMemberRun {
  private static final byte POISON = (byte) 0xA5;

  /**
   * The number of turns in which each mode makes its share of the batches, so that other load
   * affects all modes alike.
   */
  private static final int TURNS = 3;

  /**
   * How many calls are in flight while the JVM warms up: as many as a stream holds without blocking
   * the host.
   */
  private static final int WARM_CALLS = 500;

  private static final int WARM_BATCHES = 300;
  private static final double NANOS_PER_MICRO = 1e3;

  private final CollectiveGroup group;
  private final Settings settings;
  private final SpinBarrier barrier;
  private final BetweenFactory kernels;
  private final DeviceStream stream;
  private final List<Batch> batches = new ArrayList<>();

  /** Creates the submission of a kernel between two calls, the first of which gives the result. */
  interface BetweenFactory {
    Runnable of(Between which, DeviceBuffer result, DeviceStream stream);
  }

  GpuMemberRun(
      CollectiveGroup group, Settings settings, SpinBarrier barrier, BetweenFactory kernels) {
    this.group = group;
    this.settings = settings;
    this.barrier = barrier;
    this.kernels = kernels;
    stream = group.stream();
  }

  List<Batch> run() {
    List<CollectiveValues> problems = CpuMemberRun.sizes(settings);
    if (settings.warmup() != 0) {
      rehearse(problems.get(0));
    }
    for (CollectiveValues problem : problems) {
      try (Size size = new Size(problem)) {
        size.run();
      }
    }
    return batches;
  }

  private void rehearse(CollectiveValues problem) {
    try (Size size = new Size(problem)) {
      for (int calls = 0; calls < Compilers.CALLS; calls += WARM_CALLS) {
        for (int i = 0; i < WARM_CALLS; i++) {
          size.call.run();
        }
        stream.synchronize();
      }
      for (Chain chain : size.chains) {
        chain.time(WARM_BATCHES, 0);
      }
    }
    batches.clear();
    Compilers.await();
    barrier.await();
  }

  /** The buffers of one size, and what is timed with them. */
  private final class Size implements AutoCloseable {
    private final CollectiveValues problem;
    private final DeviceBuffer send;
    private final DeviceBuffer recv;
    private final @Nullable FusedCall fused;
    private final int iterations;
    final Runnable call;
    final List<Chain> chains = new ArrayList<>();
    private long seed;

    Size(CollectiveValues problem) {
      this.problem = problem;
      Device device = group.device();
      send = device.allocate(problem.type(), problem.sendElements());
      recv = device.allocate(problem.type(), problem.recvElements());
      iterations = settings.iterationsOf(problem.bytes());
      FusedRows rows = settings.fused();
      fused =
          rows == null ? null : new FusedCall(device, rows, new FusedValues(problem, rows), recv);
      call =
          fused == null
              ? GroupCalls.of(group, settings, problem, send, recv, stream)
              : fused.of(group, settings, send, stream);
      refresh();
      // The driver loads kernels when they are first called.
      call.run();
      call.run();
      stream.synchronize();
      for (Mode mode : settings.modes()) {
        String name = OptionNames.of(mode);
        if (mode.between() == Between.NOTHING) {
          chains.add(new Chain(name, true, mode.inGraph(), iterations, repeat(call)));
          continue;
        }
        Runnable between = kernels.of(mode.between(), recv, stream);
        Runnable first = mode.between() == Between.SWEEP ? between : call;
        Runnable second = mode.between() == Between.SWEEP ? call : between;
        Runnable both =
            () -> {
              first.run();
              second.run();
            };
        // In a graph whatever the mode: submitted one by one, so short a kernel would show the
        // host's
        // time for it, which in the mode itself passes while the call runs.
        chains.add(new Chain(name + Mode.ALONE, false, true, iterations, repeat(between)));
        chains.add(new Chain(name, true, mode.inGraph(), iterations, repeat(both)));
      }
    }

    private Runnable repeat(Runnable one) {
      return () -> {
        for (int i = 0; i < iterations; i++) {
          one.run();
        }
      };
    }

    void run() {
      int warmup = settings.warmupOf(problem.bytes());
      for (int turn = 0; turn < TURNS; turn++) {
        int count = settings.repeats() * (turn + 1) / TURNS - settings.repeats() * turn / TURNS;
        for (Chain chain : chains) {
          if (count > 0) {
            chain.time(warmup, count);
            group.throwIfFailed();
          }
        }
      }
      for (Chain chain : chains) {
        long wrong = chain.communicates ? wrong(chain) : 0;
        for (int i = 0; i < chain.us.size(); i++) {
          // Added once for all batches of the mode, because one batch is checked.
          batches.add(
              new Batch(
                  problem.bytes(),
                  ResultLine.OUT_OF_PLACE,
                  chain.name,
                  chain.us.get(i),
                  i == 0 ? wrong : 0));
        }
      }
    }

    /** Runs the timed calls once more, with different data, and counts wrong elements. */
    private long wrong(Chain chain) {
      refresh();
      barrier.await();
      chain.submit();
      stream.synchronize();
      group.throwIfFailed();
      if (fused != null) {
        return fused.wrong(seed);
      }
      ByteBuffer got = bytesOf(problem.recvElements());
      recv.copyTo(got);
      return problem.wrong(seed, group.rank(), got.flip());
    }

    private void refresh() {
      seed++;
      ByteBuffer values = bytesOf(problem.sendElements());
      problem.fill(seed, group.rank(), values);
      send.copyFrom(values.flip());
      // Overwrites the output, so that a call that writes nothing is detected.
      byte[] poison = new byte[Math.toIntExact(recv.sizeBytes())];
      Arrays.fill(poison, POISON);
      recv.copyFrom(ByteBuffer.wrap(poison));
      if (fused != null) {
        fused.refresh(seed);
      }
    }

    private ByteBuffer bytesOf(long elements) {
      return ByteBuffer.allocate(Math.toIntExact(elements * problem.type().sizeBytes()))
          .order(ByteOrder.nativeOrder());
    }

    @Override
    public void close() {
      chains.forEach(Chain::close);
      if (fused != null) {
        fused.close();
      }
      send.close();
      recv.close();
    }
  }

  /** Back-to-back calls, and the time of each batch on this rank. */
  private final class Chain implements AutoCloseable {
    final String name;
    final boolean communicates;
    final List<Double> us = new ArrayList<>();
    private final int iterations;
    private final Runnable work;
    private final @Nullable DeviceGraph graph;
    private final DeviceEvent begin = group.device().createEvent();
    private final DeviceEvent end = group.device().createEvent();

    Chain(String name, boolean communicates, boolean inGraph, int iterations, Runnable work) {
      this.name = name;
      this.communicates = communicates;
      this.iterations = iterations;
      this.work = work;
      graph = inGraph ? group.device().capture(stream, work) : null;
    }

    void submit() {
      if (graph != null) {
        graph.launch(stream);
      } else {
        work.run();
      }
    }

    void time(int warmup, int count) {
      for (int i = 0; i < warmup + count; i++) {
        barrier.await();
        begin.record(stream);
        submit();
        end.record(stream);
        end.synchronize();
        if (i >= warmup) {
          us.add(end.elapsedSince(begin).toNanos() / NANOS_PER_MICRO / iterations);
        }
      }
    }

    @Override
    public void close() {
      if (graph != null) {
        graph.close();
      }
      begin.close();
      end.close();
    }
  }
}
