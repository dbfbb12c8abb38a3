package io.nvrar.tools.bench.measure;

import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * The measurement of one member on the CPU, with the same steps as native/bench/measure.cpp. {@link
 * JavaRun}, which is idle meanwhile, combines the results of the ranks.
 */
public final class CpuMemberRun {
  private static final byte POISON = (byte) 0xA5;

  /**
   * The number of batches until the code around the calls is compiled, too; its compilation would
   * take cores from the ranks.
   */
  private static final int COMPILE_BATCHES = 20;

  private static final long COMPILE_CHECKED_ELEMENTS = 2_000_000;

  private final CollectiveGroup group;
  private final Settings settings;
  private final List<Batch> batches = new ArrayList<>();

  /**
   * The result of one rank for one batch, as sent to the launching process.
   *
   * @param mode the name of a {@link Mode}, with {@link Mode#ALONE} behind it for what computes
   *     only
   */
  public record Batch(long bytes, String placement, String mode, double us, long wrong) {
    String toLine() {
      return String.format(Locale.ROOT, "%d %s %s %.4f %d", bytes, placement, mode, us, wrong);
    }

    static Batch parse(String line) {
      String[] fields = line.split(" ", -1);
      return new Batch(
          Long.parseLong(fields[0]),
          fields[1],
          fields[2],
          Double.parseDouble(fields[3]),
          Long.parseLong(fields[4]));
    }
  }

  CpuMemberRun(CollectiveGroup group, Settings settings) {
    this.group = group;
    this.settings = settings;
  }

  List<Batch> run() {
    List<CollectiveValues> problems = sizes(settings);
    if (settings.warmup() != 0) {
      rehearse(problems);
    }
    for (CollectiveValues problem : problems) {
      measure(problem, settings.repeats());
    }
    return batches;
  }

  private void measure(CollectiveValues problem, int repeats) {
    try (Size size = new Size(problem)) {
      for (int repeat = 0; repeat < repeats; repeat++) {
        long seed = 2 * (problem.bytes() * 1000 + repeat);
        size.measureOutOfPlace(seed);
        if (problem.hasInPlace()) {
          size.measureInPlace(seed + 1);
        }
      }
    }
  }

  private void rehearse(List<CollectiveValues> problems) {
    try (Size size = new Size(problems.get(0))) {
      size.repeat(size.outOfPlace, Compilers.CALLS);
    }
    measure(problems.get(0), COMPILE_BATCHES);
    CollectiveValues largest = problems.get(problems.size() - 1);
    long enough = COMPILE_CHECKED_ELEMENTS / Math.max(1, largest.elements());
    measure(largest, (int) Math.min(COMPILE_BATCHES, 1 + enough));
    batches.clear();
    Compilers.await();
    group.barrier();
  }

  /** The sizes to measure, in order; sizes of less than one element per rank are rounded up. */
  static List<CollectiveValues> sizes(Settings settings) {
    FusedRows fused = settings.fused();
    if (fused != null) {
      return fused.rows().stream()
          .map(rows -> CollectiveValues.ofRows(settings, fused, rows))
          .toList();
    }
    List<CollectiveValues> problems = new ArrayList<>();
    long lastCount = -1;
    for (long bytes = settings.minBytes();
        bytes <= settings.maxBytes();
        bytes *= settings.factor()) {
      CollectiveValues problem = CollectiveValues.ofSize(settings, bytes);
      if (problem.count() != lastCount) {
        problems.add(problem);
      }
      lastCount = problem.count();
    }
    return problems;
  }

  /** The buffers of one size. */
  private final class Size implements AutoCloseable {
    private final CollectiveValues problem;
    private final DeviceBuffer send;
    private final DeviceBuffer recv;
    private final DeviceBuffer both;
    private final DeviceBuffer sendInPlace;
    private final DeviceBuffer recvInPlace;
    final Runnable outOfPlace;
    final Runnable inPlace;

    Size(CollectiveValues problem) {
      this.problem = problem;
      Device device = group.device();
      send = device.allocate(problem.type(), problem.sendElements());
      recv = device.allocate(problem.type(), problem.recvElements());
      both = device.allocate(problem.type(), problem.elements());
      sendInPlace = both.slice(problem.sendOffsetInPlace(group.rank()), problem.sendElements());
      recvInPlace = both.slice(problem.recvOffsetInPlace(group.rank()), problem.recvElements());
      outOfPlace = call(send, recv);
      inPlace = call(sendInPlace, recvInPlace);
    }

    private Runnable call(DeviceBuffer from, DeviceBuffer to) {
      return GroupCalls.of(group, settings, problem, from, to, group.stream());
    }

    void measureOutOfPlace(long seed) {
      ByteBuffer values = bytesOf(problem.sendElements());
      problem.fill(seed, group.rank(), values);
      send.copyFrom(values.flip());
      double us = time(outOfPlace);
      poison(recv);
      outOfPlace.run();
      add(ResultLine.OUT_OF_PLACE, us, seed, recv);
    }

    void measureInPlace(long seed) {
      // Calls in place reuse their own results as input, so the values are zeros, which every
      // operation leaves unchanged.
      both.copyFrom(bytesOf(problem.elements()));
      double us = time(inPlace);
      poison(both);
      ByteBuffer values = bytesOf(problem.sendElements());
      problem.fill(seed, group.rank(), values);
      sendInPlace.copyFrom(values.flip());
      inPlace.run();
      add(ResultLine.IN_PLACE, us, seed, recvInPlace);
    }

    private double time(Runnable call) {
      repeat(call, settings.warmupOf(problem.bytes()));
      group.barrier();
      int iterations = settings.iterationsOf(problem.bytes());
      long begin = System.nanoTime();
      repeat(call, iterations);
      return (System.nanoTime() - begin) * 1e-3 / iterations;
    }

    void repeat(Runnable call, int times) {
      for (int i = 0; i < times; i++) {
        call.run();
      }
    }

    private void poison(DeviceBuffer buffer) {
      byte[] bytes = new byte[Math.toIntExact(buffer.sizeBytes())];
      Arrays.fill(bytes, POISON);
      buffer.copyFrom(ByteBuffer.wrap(bytes));
    }

    private void add(String placement, double us, long seed, DeviceBuffer result) {
      ByteBuffer got = bytesOf(problem.recvElements());
      result.copyTo(got);
      long wrong = problem.wrong(seed, group.rank(), got.flip());
      batches.add(new Batch(problem.bytes(), placement, OptionNames.of(Mode.CALLS), us, wrong));
    }

    private ByteBuffer bytesOf(long elements) {
      return ByteBuffer.allocate(Math.toIntExact(elements * problem.type().sizeBytes()))
          .order(ByteOrder.nativeOrder());
    }

    @Override
    public void close() {
      send.close();
      recv.close();
      both.close();
    }
  }
}
