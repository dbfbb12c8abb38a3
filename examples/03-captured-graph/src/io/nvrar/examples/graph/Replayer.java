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
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Locale;

/** One member: captures a decode step, replays it, and compares with making the calls. */
public class Replayer implements CollectiveActor {

  /**
   * How many all-reduces a step may have. With the sum of 8 ranks, 92 at most, the residuals stay
   * whole numbers up to 2^24, which float32 holds exactly.
   */
  static final int MOST_CALLS = (1 << 24) / 92;

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
      step.microsEach(1, step::submit);
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

    private final CollectiveGroup group;
    private final int calls;
    private final float[] numbers;
    private final DeviceStream stream;
    private final Deque<DeviceBuffer> buffers = new ArrayDeque<>();

    // Pinned host memory, which the device can access directly, so a graph can contain the copies.
    private final DeviceBuffer given;
    private final DeviceBuffer result;
    private final DeviceBuffer normedResult;

    private final DeviceBuffer partial;
    private final DeviceBuffer zeros;
    private final DeviceBuffer residual;
    private final DeviceBuffer normed;

    /** What follows each sum, in the same call: the residual is updated in place. */
    private final AllReduceFusion addAndNorm;

    Step(CollectiveGroup group, int calls, int hidden) {
      this.group = group;
      this.calls = calls;
      numbers = new float[hidden];
      Device device = group.device();
      stream = device.createStream();
      given = own(device.allocatePinned(DataType.FLOAT32, hidden));
      result = own(device.allocatePinned(DataType.FLOAT32, hidden));
      normedResult = own(device.allocatePinned(DataType.FLOAT32, hidden));
      partial = own(device.allocate(DataType.FLOAT32, hidden));
      zeros = own(device.allocate(DataType.FLOAT32, hidden));
      residual = own(device.allocate(DataType.FLOAT32, hidden));
      normed = own(device.allocate(DataType.FLOAT32, hidden));
      zeros.copyFrom(numbers);
      DeviceBuffer weight = own(device.allocate(DataType.FLOAT32, hidden));
      Arrays.fill(numbers, WEIGHT);
      weight.copyFrom(numbers);
      addAndNorm = AllReduceFusion.residualRmsNorm(residual, residual, weight, 1e-5f, normed);
    }

    private DeviceBuffer own(DeviceBuffer buffer) {
      buffers.push(buffer);
      return buffer;
    }

    /** Returns at once on a GPU; on the CPU it returns when the work is done. */
    void submit() {
      stream.copy(given, partial);
      stream.copy(zeros, residual);
      for (int i = 0; i < calls; i++) {
        // In a model, kernels that compute partial from normed come before this.
        group.allReduce(partial, addAndNorm, stream);
      }
      stream.copy(residual, result);
      stream.copy(normed, normedResult);
    }

    /** Runs the step on different numbers each time; returns the microseconds of one all-reduce. */
    double microsEach(int times, Runnable run) {
      long nanos = 0;
      for (int time = 1; time <= times; time++) {
        int number = 1 + time % 8;
        Arrays.fill(numbers, group.rank() + number);
        given.copyFrom(numbers);
        long begin = System.nanoTime();
        run.run();
        stream.synchronize();
        group.throwIfFailed();
        nanos += System.nanoTime() - begin;
        int world = group.worldSize();
        check("residual", result, calls * (world * (world - 1) / 2 + world * number), 0);
        // All elements of the row are equal, so each is as large as their root mean square.
        check("normalised element", normedResult, WEIGHT, 1e-4f);
      }
      return nanos / 1e3 / times / calls;
    }

    private void check(String what, DeviceBuffer buffer, float expected, float margin) {
      buffer.copyTo(numbers);
      for (float number : numbers) {
        if (!(Math.abs(number - expected) <= margin)) {
          throw new IllegalStateException(
              "rank " + group.rank() + " has a " + what + " of " + number + ", not " + expected);
        }
      }
    }

    @Override
    public void close() {
      buffers.forEach(DeviceBuffer::close);
      stream.close();
    }
  }
}
