package io.nvrar.examples.graph;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.util.Arrays;

/**
 * One member: captures a step of many all-reduces, replays it, and compares with making the calls.
 */
public class Replayer implements CollectiveActor {

  /**
   * Runs the step both ways, on other numbers each time, and checks every sum.
   *
   * @param name the group's name
   * @param calls the number of all-reduces in the step
   * @param count the number of elements of each
   * @param times how often the step is run each way
   * @return one line with the result
   */
  public String run(String name, int calls, int count, int times) {
    CollectiveGroup group = RayCollectives.group(name);
    try (Step step = new Step(group, calls, count)) {
      // Run once before the clock starts, for the one-time work of a first call.
      step.submit();
      step.await();
      double called = step.microsEach(times, step::submit);
      double replayed;
      // Nothing is executed here: the stream records what is submitted to it.
      try (DeviceGraph graph = group.device().capture(step.stream, step::submit)) {
        replayed = step.microsEach(times, () -> graph.launch(step.stream));
      }
      return "rank %d of %d on %s (%s): %d replays of %d all-reduces of %d float32, every sum right; %.1f us each, %.1f us without the graph"
          .formatted(
              group.rank(),
              group.worldSize(),
              group.device(),
              group.backend(),
              times,
              calls,
              count,
              replayed,
              called);
    }
  }

  /**
   * Copies this rank's numbers to the device, reduces them many times, and copies the sums back.
   */
  private static final class Step implements AutoCloseable {

    private final CollectiveGroup group;
    private final int calls;
    private final float[] numbers;
    private final DeviceStream stream;

    /**
     * Pinned host memory, which the device can access directly, so a graph can contain the copies.
     */
    private final DeviceBuffer given;

    private final DeviceBuffer result;
    private final DeviceBuffer own;
    private final DeviceBuffer sums;

    Step(CollectiveGroup group, int calls, int count) {
      this.group = group;
      this.calls = calls;
      numbers = new float[count];
      stream = group.device().createStream();
      given = group.device().allocatePinned(DataType.FLOAT32, count);
      result = group.device().allocatePinned(DataType.FLOAT32, count);
      own = group.device().allocate(DataType.FLOAT32, count);
      sums = group.device().allocate(DataType.FLOAT32, count);
    }

    /** Returns at once on a GPU; on the CPU it returns when the work is done. */
    void submit() {
      stream.copy(given, own);
      for (int i = 0; i < calls; i++) {
        group.allReduce(own, sums, ReduceOp.SUM, stream);
      }
      stream.copy(sums, result);
    }

    void await() {
      stream.synchronize();
      group.throwIfFailed();
    }

    /** Runs the step on different numbers each time; returns the microseconds of one all-reduce. */
    double microsEach(int times, Runnable run) {
      long nanos = 0;
      for (int time = 1; time <= times; time++) {
        Arrays.fill(numbers, group.rank() + time);
        given.copyFrom(numbers);
        long begin = System.nanoTime();
        run.run();
        await();
        nanos += System.nanoTime() - begin;
        check(time);
      }
      return nanos / 1e3 / times / calls;
    }

    private void check(int time) {
      int world = group.worldSize();
      float expected = world * (world - 1) / 2 + world * time;
      result.copyTo(numbers);
      for (float sum : numbers) {
        if (sum != expected) {
          throw new IllegalStateException(
              "rank %d has a sum of %s, not %s, at time %d"
                  .formatted(group.rank(), sum, expected, time));
        }
      }
    }

    @Override
    public void close() {
      sums.close();
      own.close();
      result.close();
      given.close();
      stream.close();
    }
  }
}
