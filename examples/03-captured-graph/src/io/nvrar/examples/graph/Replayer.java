package io.nvrar.examples.graph;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import io.nvrar.standalone.Groups;
import java.util.Arrays;
import java.util.Locale;

/**
 * One member: captures a decode step, whose layers end in all-reduces, replays it, and compares
 * with making the calls.
 */
public class Replayer implements CollectiveActor {

  /** The largest whole number up to which float32 holds all. */
  private static final int MOST_EXACT = 1 << 24;

  private static final int MOST_NUMBER = 8;

  /**
   * How many all-reduces a step may have, so that every residual is exact on as many ranks as a
   * host has.
   */
  static final long MOST_CALLS = MOST_EXACT / Step.sum(Groups.MAX_NODE_SIZE, MOST_NUMBER);

  /**
   * Runs the step both ways, on other numbers each time, and checks every result.
   *
   * @param name the group's name
   * @param calls the number of all-reduces in the step
   * @param hidden the number of elements of each
   * @param times how often the step is run each way
   * @return one line with the result
   */
  public String run(String name, int calls, int hidden, int times) {
    CollectiveGroup group = RayCollectives.group(name);
    try (Step step = new Step(group, calls, hidden)) {
      // Run once before the clock starts, for the one-time work of a first call.
      step.submit();
      step.await();
      double called = step.microsEach(times, step::submit);
      double replayed;
      // Nothing is executed here: the stream records what is submitted to it.
      try (DeviceGraph graph = group.device().capture(step.stream, step::submit)) {
        replayed = step.microsEach(times, () -> graph.launch(step.stream));
      }
      return String.format(
          Locale.ROOT,
          "rank %d of %d on %s (%s): %d replays of %d all-reduces with residual and RMSNorm of %d float32, every result right; %.1f us each, %.1f us without the graph",
          group.rank(),
          group.worldSize(),
          group.device(),
          group.backend(),
          times,
          calls,
          hidden,
          replayed,
          called);
    }
  }

  /**
   * Copies this rank's numbers to the device, adds the sums over ranks to the residual stream many
   * times, as the layers of a model do, and copies it and what is normalised of it back.
   */
  private static final class Step implements AutoCloseable {

    private static final float WEIGHT = 0.5f;
    private static final float EPS = 1e-5f;

    private final CollectiveGroup group;
    private final int calls;
    private final float[] numbers;
    private final DeviceStream stream;

    /**
     * Pinned host memory, which the device can access directly, so a graph can contain the copies.
     */
    private final DeviceBuffer given;

    private final DeviceBuffer result;
    private final DeviceBuffer normedResult;

    private final DeviceBuffer partial;

    /** Zeros, with which the residual begins in each step. */
    private final DeviceBuffer start;

    private final DeviceBuffer residual;
    private final DeviceBuffer weight;
    private final DeviceBuffer normed;

    /** What follows each sum, in the same call: the residual is updated in place. */
    private final AllReduceFusion addAndNorm;

    Step(CollectiveGroup group, int calls, int hidden) {
      this.group = group;
      this.calls = calls;
      numbers = new float[hidden];
      Device device = group.device();
      stream = device.createStream();
      given = device.allocatePinned(DataType.FLOAT32, hidden);
      result = device.allocatePinned(DataType.FLOAT32, hidden);
      normedResult = device.allocatePinned(DataType.FLOAT32, hidden);
      partial = device.allocate(DataType.FLOAT32, hidden);
      start = device.allocate(DataType.FLOAT32, hidden);
      residual = device.allocate(DataType.FLOAT32, hidden);
      weight = device.allocate(DataType.FLOAT32, hidden);
      normed = device.allocate(DataType.FLOAT32, hidden);
      start.copyFrom(numbers);
      Arrays.fill(numbers, WEIGHT);
      weight.copyFrom(numbers);
      addAndNorm = AllReduceFusion.residualRmsNorm(residual, residual, weight, EPS, normed);
    }

    /** Returns at once on a GPU; on the CPU it returns when the work is done. */
    void submit() {
      stream.copy(given, partial);
      stream.copy(start, residual);
      for (int i = 0; i < calls; i++) {
        // In a model, kernels that compute partial from normed come before this.
        group.allReduce(partial, addAndNorm, stream);
      }
      stream.copy(residual, result);
      stream.copy(normed, normedResult);
    }

    void await() {
      stream.synchronize();
      group.throwIfFailed();
    }

    /** Runs the step on different numbers each time; returns the microseconds of one all-reduce. */
    double microsEach(int times, Runnable run) {
      long nanos = 0;
      for (int time = 1; time <= times; time++) {
        Arrays.fill(numbers, group.rank() + number(time));
        given.copyFrom(numbers);
        long begin = System.nanoTime();
        run.run();
        await();
        nanos += System.nanoTime() - begin;
        check(time);
      }
      return nanos / 1e3 / times / calls;
    }

    /** Small, so that the residuals of many calls are exact. */
    private static int number(int time) {
      return 1 + time % MOST_NUMBER;
    }

    /** The sum over ranks of what each gives. */
    private static long sum(long world, int number) {
      return world * (world - 1) / 2 + world * number;
    }

    private void check(int time) {
      long sum = sum(group.worldSize(), number(time));
      check("residual", result, (float) (calls * sum), 0, time);
      // All elements of the row are equal, so each is as large as their root mean square.
      check("normalised element", normedResult, WEIGHT, 1e-4f, time);
    }

    private void check(String what, DeviceBuffer buffer, float expected, float margin, int time) {
      buffer.copyTo(numbers);
      for (float number : numbers) {
        if (!(Math.abs(number - expected) <= margin)) {
          throw new IllegalStateException(
              String.format(
                  Locale.ROOT,
                  "rank %d has a %s of %s, not %s, at time %d",
                  group.rank(),
                  what,
                  number,
                  expected,
                  time));
        }
      }
    }

    @Override
    public void close() {
      normed.close();
      weight.close();
      residual.close();
      start.close();
      partial.close();
      normedResult.close();
      result.close();
      given.close();
      stream.close();
    }
  }
}
