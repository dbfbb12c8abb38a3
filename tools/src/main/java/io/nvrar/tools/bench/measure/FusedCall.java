package io.nvrar.tools.bench.measure;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.FusedValues;
import io.nvrar.tools.bench.setup.Settings;
import java.util.Arrays;
import java.util.List;

/** A fused all-reduce, with the buffers that it has besides its input and output. */
final class FusedCall implements AutoCloseable {
  private final FusedValues values;
  private final AllReduceFusion fusion;
  private final DeviceBuffer residual;
  private final DeviceBuffer weight;
  private final DeviceBuffer residualOut;
  private final DeviceBuffer squares;
  private final DeviceBuffer output;

  FusedCall(Device device, FusedRows fused, FusedValues values, DeviceBuffer output) {
    DataType type = values.sums().type();
    long count = values.sums().count();
    this.values = values;
    this.output = output;
    residual = device.allocate(type, count);
    weight = device.allocate(type, fused.hidden());
    residualOut = device.allocate(type, count);
    squares = device.allocate(DataType.FLOAT32, values.squaresCount());
    fusion =
        switch (fused.form()) {
          case RESIDUAL -> AllReduceFusion.residual(residual, output);
          case BIAS -> AllReduceFusion.bias(weight, output);
          case RMS_NORM ->
              AllReduceFusion.residualRmsNorm(
                  residual, residualOut, weight, FusedValues.EPS, output);
          case RMS_FOLD ->
              AllReduceFusion.residualRmsNormFold(residual, residualOut, weight, output, squares);
        };
  }

  Runnable of(CollectiveGroup group, Settings settings, DeviceBuffer input, DeviceStream stream) {
    return () -> group.allReduce(input, fusion, settings.algorithm(), stream);
  }

  /** New data, and results in which nothing is right. */
  void refresh(long seed) {
    residual.copyFrom(values.residual(seed));
    weight.copyFrom(values.weight(seed));
    for (DeviceBuffer written : List.of(residualOut, squares)) {
      float[] poison = new float[Math.toIntExact(written.count())];
      Arrays.fill(poison, Float.NaN);
      written.copyFrom(poison);
    }
  }

  long wrong(long seed) {
    return values.wrong(seed, floats(output), floats(residualOut), floats(squares));
  }

  private static float[] floats(DeviceBuffer buffer) {
    float[] floats = new float[Math.toIntExact(buffer.count())];
    buffer.copyTo(floats);
    return floats;
  }

  @Override
  public void close() {
    List.of(residual, weight, residualOut, squares).forEach(DeviceBuffer::close);
  }
}
