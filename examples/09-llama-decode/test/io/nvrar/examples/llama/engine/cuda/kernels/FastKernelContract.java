package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A GPU with the fast kernels, buffers that are closed after each test, and comparisons. */
abstract class FastKernelContract {
  /** Elements behind an output, which no kernel may touch. */
  private static final int GUARD = 256;

  private static final float UNTOUCHED = 12345;

  private final List<AutoCloseable> opened = new ArrayList<>();
  private Device device;
  protected Gpu gpu;
  protected DeviceStream stream;

  @BeforeEach
  final void openGpu() {
    assumeTrue(Devices.unavailabilityCause(Backend.CUDA) == null, "there is no GPU");
    device = Devices.open(Backend.CUDA, 0);
    gpu = new Gpu(device);
    assumeTrue(gpu.capabilityMajor() >= 9, gpu + " is too old for the fast kernels");
    assumeTrue(KernelImage.exists("gemm"), "this build has no kernels");
    stream = device.createStream();
  }

  @AfterEach
  final void closeAll() throws Exception {
    if (stream != null) {
      stream.close();
    }
    for (int i = opened.size() - 1; i >= 0; i--) {
      opened.get(i).close();
    }
  }

  protected final Device device() {
    return device;
  }

  protected final KernelImage image(String name) {
    KernelImage image = KernelImage.load(gpu, name);
    opened.add(image);
    return image;
  }

  protected final DeviceBuffer buffer(DataType type, float... values) {
    DeviceBuffer buffer = allocate(type, values.length);
    buffer.copyFrom(values);
    return buffer;
  }

  protected final DeviceBuffer buffer(int... values) {
    DeviceBuffer buffer = allocate(DataType.INT32, values.length);
    buffer.copyFrom(values);
    return buffer;
  }

  protected final DeviceBuffer buffer(long... values) {
    DeviceBuffer buffer = allocate(DataType.INT64, values.length);
    buffer.copyFrom(values);
    return buffer;
  }

  /** What a kernel is to fill: no numbers, and behind them what it may not touch. */
  protected final DeviceBuffer output(DataType type, int count) {
    float[] values = new float[count + GUARD];
    Arrays.fill(values, Float.NaN);
    Arrays.fill(values, count, values.length, rounded(type, UNTOUCHED));
    return buffer(type, values);
  }

  /** The numbers of an {@link #output}. */
  protected final float[] read(DeviceBuffer output) {
    float[] values = floats(output);
    int count = values.length - GUARD;
    float untouched = rounded(output.dataType(), UNTOUCHED);
    for (int i = count; i < values.length; i++) {
      assertThat(values[i])
          .as("element %d behind the output's %d", i - count, count)
          .isEqualTo(untouched);
    }
    return Arrays.copyOf(values, count);
  }

  protected final float[] floats(DeviceBuffer buffer) {
    stream.synchronize();
    float[] values = new float[Math.toIntExact(buffer.count())];
    buffer.copyTo(values);
    return values;
  }

  private DeviceBuffer allocate(DataType type, int count) {
    DeviceBuffer buffer = device.allocate(type, count);
    opened.add(buffer);
    return buffer;
  }

  /** Random numbers that the type has, around 0. */
  protected static float[] random(Random random, DataType type, int count, double deviation) {
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = rounded(type, (float) ((random.nextFloat() - 0.5) * Math.sqrt(12) * deviation));
    }
    return values;
  }

  /** The number followed by others that are none, for memory that a kernel must not use. */
  protected static float[] withNoNumbersBehind(float[] values, int count) {
    float[] longer = Arrays.copyOf(values, count);
    Arrays.fill(longer, values.length, count, Float.NaN);
    return longer;
  }

  /**
   * A number with as many bits as the type has, by Veltkamp's splitting; not for numbers that are
   * near the ends of the type's range.
   */
  protected static float rounded(DataType type, float value) {
    if (type == DataType.FLOAT32) {
      return value;
    }
    float scaled = value * (type == DataType.BFLOAT16 ? 65537 : 8193);
    return scaled - (scaled - value);
  }

  /** Half of the distance between 1 and the next number of the type. */
  protected static double roundingError(DataType type) {
    return switch (type) {
      case BFLOAT16 -> 0x1p-8;
      case FLOAT16 -> 0x1p-11;
      default -> 0x1p-24;
    };
  }

  /** Collects the numbers that are wrong, so that a failure says where they are. */
  protected static final class Comparison {
    private static final int SHOWN = 8;

    private final String what;
    private final List<String> shown = new ArrayList<>();
    private int wrong;
    private int all;

    Comparison(String what) {
      this.what = what;
    }

    void add(double actual, double expected, double allowed, Supplier<String> place) {
      all++;
      double difference = Math.abs(actual - expected);
      if (difference <= allowed || (Double.isNaN(actual) && Double.isNaN(expected))) {
        return;
      }
      wrong++;
      if (shown.size() < SHOWN) {
        shown.add(
            String.format(
                Locale.ROOT,
                "%s: %.9g instead of %.9g, off by %.3g where %.3g is allowed",
                place.get(),
                actual,
                expected,
                difference,
                allowed));
      }
    }

    void verify() {
      assertThat(wrong)
          .as("%s: %d of %d numbers are wrong%n%s", what, wrong, all, String.join("\n", shown))
          .isZero();
    }
  }

  /** Compares bit by bit. */
  protected static void assertSame(String what, float[] actual, float[] expected) {
    assertThat(actual).hasSameSizeAs(expected);
    Comparison comparison = new Comparison(what);
    for (int i = 0; i < actual.length; i++) {
      boolean same = Float.floatToRawIntBits(actual[i]) == Float.floatToRawIntBits(expected[i]);
      int at = i;
      comparison.add(actual[i], expected[i], same ? 0 : -1, () -> "element " + at);
    }
    comparison.verify();
  }
}
