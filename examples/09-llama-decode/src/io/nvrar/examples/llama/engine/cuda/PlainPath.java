package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.PlainKernels;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.RowSampling;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import org.jspecify.annotations.Nullable;

/** The path for any shape: rows, cache and sums over ranks in float32. */
final class PlainPath extends StampedPath {
  private final Resources resources = new Resources();
  private final CollectiveGroup group;
  private final PartialSums sums;
  private final DeviceStream stream;
  private final RankShape shape;
  private final float epsilon;
  private final GpuWeights weights;
  private final StepEnds ends;
  private final PlainKernels kernels;
  private final StepState state;
  private final PagedCache cache;
  private final DeviceBuffer angles;
  private final DeviceBuffer partial;
  private final DeviceBuffer residual;
  private final DeviceBuffer normalised;
  private final DeviceBuffer queryKeyValue;
  private final DeviceBuffer heads;
  private final DeviceBuffer gateUp;
  private final DeviceBuffer wide;
  private final DeviceBuffer headRows;
  private final DeviceBuffer headLogits;

  /**
   * Makes room.
   *
   * @param rows of the largest step
   * @param headRowCount rows of the largest head
   */
  PlainPath(
      RankModel model, RequestState request, PlainKernels kernels, int rows, int headRowCount) {
    super(model.stream(), model.shape().layers());
    group = model.group();
    sums = request.sums();
    stream = model.stream();
    shape = model.shape();
    epsilon = model.epsilon();
    weights = model.weights();
    ends = model.ends();
    this.kernels = kernels;
    state = request.rows();
    cache = request.cache();
    angles = request.angles();
    try {
      partial = floats(rows, shape.hidden());
      residual = floats(rows, shape.hidden());
      normalised = floats(rows, shape.hidden());
      queryKeyValue = floats(rows, shape.queryKeyValueSize());
      heads = floats(rows, shape.attentionSize());
      gateUp = floats(rows, 2 * shape.width());
      wide = floats(rows, shape.width());
      headRows = floats(headRowCount, shape.hidden());
      headLogits = floats(headRowCount, shape.vocabulary());
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /** The bytes of a row of a step and of the head. */
  static long bytesOfRow(RankShape shape) {
    return (4L * shape.hidden()
            + shape.queryKeyValueSize()
            + shape.attentionSize()
            + 3L * shape.width()
            + shape.vocabulary())
        * Float.BYTES;
  }

  @Override
  public int contextFor(int positions) {
    return 0;
  }

  @Override
  public void enqueueLayers(int rows, boolean isDecode, int context) {
    ends.embed(stream, shape, weights.embedding(), state, rows, partial);
    ended("embed", -1);
    boolean begins = true;
    for (int i = 0; i < shape.layers(); i++) {
      GpuWeights.Layer layer = weights.layers().get(i);
      addReduced(rows, begins, layer.attentionNorm(), i);
      begins = false;
      multiply(
          rows,
          normalised,
          shape.hidden(),
          layer.queryKeyValue(),
          shape.queryKeyValueSize(),
          layer.queryKeyValueBias(),
          queryKeyValue);
      ended("qkv", i);
      kernels.rotate(stream, rows, state, cache, i, queryKeyValue, angles);
      ended("rotate", i);
      kernels.attend(stream, rows, state, cache, i, queryKeyValue, heads);
      ended("attention", i);
      multiply(
          rows,
          heads,
          shape.attentionSize(),
          layer.attentionOutput(),
          shape.hidden(),
          layer.attentionOutputBias(),
          partial);
      ended("o", i);
      addReduced(rows, false, layer.mlpNorm(), i);
      multiply(
          rows,
          normalised,
          shape.hidden(),
          layer.gateUp(),
          2 * shape.width(),
          layer.gateUpBias(),
          gateUp);
      ended("gate/up", i);
      kernels.swiglu(stream, rows, gateUp, wide);
      ended("swiglu", i);
      multiply(rows, wide, shape.width(), layer.down(), shape.hidden(), layer.downBias(), partial);
      ended("down", i);
    }
    addReduced(rows, begins, weights.finalNorm(), -1);
  }

  @Override
  public void enqueueLogits(int[] rows, DeviceBuffer logits) {
    int hidden = shape.hidden();
    for (int i = 0; i < rows.length; i++) {
      stream.copy(
          normalised.slice((long) rows[i] * hidden, hidden),
          headRows.slice((long) i * hidden, hidden));
    }
    project(rows.length, headRows, logits);
  }

  @Override
  public DeviceBuffer enqueueHead(int rows) {
    project(rows, normalised, headLogits);
    ended("head", -1);
    return headLogits.slice(0, (long) rows * shape.vocabulary());
  }

  @Override
  public void enqueueBest(int rows, RowSampling sampling, DeviceBuffer best) {
    enqueueHead(rows);
    ends.bestOfLogits(stream, rows, shape, headLogits, sampling, best);
    ended("best", -1);
  }

  @Override
  public boolean isProgrammatic() {
    return false;
  }

  @Override
  public void close() {
    resources.close();
  }

  private void project(int rows, DeviceBuffer x, DeviceBuffer logits) {
    multiply(rows, x, shape.hidden(), weights.head(), shape.vocabulary(), null, logits);
  }

  private void addReduced(int rows, boolean begins, DeviceBuffer gamma, int layer) {
    sums.allReduce(partial.slice(0, (long) rows * shape.hidden()), stream);
    ended("all-reduce", layer);
    kernels.addNorm(stream, rows, partial, residual, begins, gamma, epsilon, normalised);
    ended("norm", layer);
  }

  private void multiply(
      int rows,
      DeviceBuffer x,
      int inputs,
      DeviceBuffer matrix,
      int outputs,
      @Nullable DeviceBuffer bias,
      DeviceBuffer out) {
    kernels.multiply(stream, rows, x, inputs, matrix, outputs, bias, out);
  }

  private DeviceBuffer floats(int rows, int size) {
    return resources.allocate(group.device(), DataType.FLOAT32, (long) rows * size);
  }
}
