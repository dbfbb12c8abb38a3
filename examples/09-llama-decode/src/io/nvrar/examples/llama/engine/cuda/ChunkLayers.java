package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.kernels.ChunkKernels;
import io.nvrar.examples.llama.engine.cuda.kernels.LargeProducts;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import java.util.ArrayList;
import java.util.List;

/**
 * How many rows at once pass through the layers, as those of prompts do: products by cuBLASLt, a
 * large all-reduce behind which a kernel adds and normalises. Rows are of the weights' type. Leaves
 * what {@link FastPath} leaves for the head.
 */
final class ChunkLayers implements Resources.Resource {
  private final Resources resources = new Resources();
  private final Gpu gpu;
  private final PartialSums sums;
  private final DeviceStream stream;
  private final RankShape shape;
  private final float epsilon;
  private final GpuWeights weights;
  private final StepEnds ends;
  private final LargeProducts products;
  private final ChunkKernels kernels;
  private final StepState state;
  private final PagedCache cache;
  private final DeviceBuffer angles;
  private final int rows;
  private final int leastRows;
  private final DeviceBuffer partial;
  private final DeviceBuffer residual;
  private final DeviceBuffer normed;
  private final DeviceBuffer squares;
  private final DeviceBuffer queryKeyValue;
  private final DeviceBuffer heads;
  private final DeviceBuffer gateUp;
  private final DeviceBuffer wide;
  private final DeviceBuffer tiles;

  /**
   * Makes room.
   *
   * @param rows of the largest chunk
   * @param leastRows of the smallest; fewer rows pass in slices
   */
  ChunkLayers(
      RankModel model,
      RequestState request,
      LargeProducts products,
      ChunkKernels kernels,
      int rows,
      int leastRows) {
    gpu = model.gpu();
    sums = request.sums();
    stream = model.stream();
    shape = model.shape();
    epsilon = model.epsilon();
    weights = model.weights();
    ends = model.ends();
    this.products = products;
    this.kernels = kernels;
    state = request.rows();
    cache = request.cache();
    angles = request.angles();
    this.rows = rows;
    this.leastRows = leastRows;
    try {
      partial = allocate(shape.hidden());
      residual = allocate(shape.hidden());
      normed = allocate(shape.hidden());
      queryKeyValue = allocate(shape.queryKeyValueSize());
      heads = allocate(shape.attentionSize());
      gateUp = allocate(2 * shape.width());
      wide = allocate(shape.width());
      squares =
          resources.allocate(
              model.group().device(),
              DataType.FLOAT32,
              (long) rows * (shape.hidden() / ChunkKernels.SQUARES));
      tiles =
          resources.allocate(
              model.group().device(), DataType.INT32, (long) rows * ChunkKernels.TILE_INTS);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /** Whether so many rows are worth a chunk. */
  boolean takes(int count) {
    return count >= leastRows;
  }

  /** The bytes of a row. */
  static long bytesOfRow(RankShape shape) {
    return (3L * shape.hidden()
                + shape.queryKeyValueSize()
                + shape.attentionSize()
                + 3L * shape.width())
            * Short.BYTES
        + (long) shape.hidden() / ChunkKernels.SQUARES * Float.BYTES
        + (long) ChunkKernels.TILE_INTS * Integer.BYTES;
  }

  /** Most rows of a chunk. */
  int rows() {
    return rows;
  }

  /** The residual of the last chunk's rows times the last norm's weight, [rows][hidden]. */
  DeviceBuffer scaled() {
    return normed;
  }

  /** The sums of its squares, FLOAT32 [rows][hidden / 64]. */
  DeviceBuffer squares() {
    return squares;
  }

  /**
   * Makes every product once that the rows of a chunk can need, so that none waits for a kernel to
   * be loaded. What it computes is of no use.
   */
  void prepare() {
    GpuWeights.Layer layer = weights.layers().get(0);
    int most = LargeProducts.padded(rows);
    for (int count = products.prepared() + LargeProducts.MULTIPLE;
        count <= most;
        count += LargeProducts.MULTIPLE) {
      multiplyAll(count, layer);
    }
    products.prepared(most);
  }

  private void multiplyAll(int count, GpuWeights.Layer layer) {
    multiplyQueryKeyValue(count, layer);
    multiplyAttentionOutput(count, layer);
    multiplyGateUp(count, layer);
    multiplyDown(count, layer);
  }

  /** Embedding and layers of the first rows of the state. */
  void enqueue(int count) {
    ChunkKernels.Rows which = written(count);
    ends.embed(stream, shape, weights.embedding(), state, count, partial);
    boolean begins = true;
    for (int i = 0; i < shape.layers(); i++) {
      GpuWeights.Layer layer = weights.layers().get(i);
      addReduced(count, begins, layer.attentionNorm(), false);
      begins = false;
      multiplyQueryKeyValue(count, layer);
      kernels.rotate(
          stream, which, cache, i, shape.heads(), queryKeyValue, layer.queryKeyValueBias());
      kernels.attend(stream, which, cache, i, shape.heads(), queryKeyValue, heads);
      multiplyAttentionOutput(count, layer);
      addReduced(count, false, layer.mlpNorm(), false);
      multiplyGateUp(count, layer);
      kernels.gate(stream, count, shape.width(), gateUp, wide);
      multiplyDown(count, layer);
    }
    addReduced(count, begins, weights.finalNorm(), true);
  }

  private ChunkKernels.Rows written(int count) {
    List<ChunkKernels.Place> places = new ArrayList<>();
    for (int row = 0; row < count; row++) {
      places.add(state.place(row));
    }
    ChunkKernels.Tiles divided = kernels.tiles(places, shape.heads());
    tiles.slice(0, divided.numbers().length).copyFrom(divided.numbers(), stream);
    return new ChunkKernels.Rows(
        count,
        state.positions(),
        state.sequences(),
        angles,
        tiles,
        divided.count(),
        divided.rowsOfTile());
  }

  private void addReduced(int count, boolean begins, DeviceBuffer gamma, boolean isLast) {
    sums.allReduce(partial.slice(0, (long) count * shape.hidden()), stream);
    kernels.norm(
        stream,
        count,
        shape.hidden(),
        begins,
        partial,
        residual,
        gamma,
        epsilon,
        normed,
        isLast ? squares : null);
  }

  private void multiplyQueryKeyValue(int count, GpuWeights.Layer layer) {
    products.multiply(
        stream,
        count,
        normed,
        shape.hidden(),
        layer.queryKeyValue(),
        shape.queryKeyValueSize(),
        queryKeyValue);
  }

  private void multiplyAttentionOutput(int count, GpuWeights.Layer layer) {
    products.multiply(
        stream,
        count,
        heads,
        shape.attentionSize(),
        layer.attentionOutput(),
        shape.hidden(),
        partial);
  }

  private void multiplyGateUp(int count, GpuWeights.Layer layer) {
    products.multiply(
        stream, count, normed, shape.hidden(), layer.gateUp(), 2 * shape.width(), gateUp);
  }

  private void multiplyDown(int count, GpuWeights.Layer layer) {
    products.multiply(stream, count, wide, shape.width(), layer.down(), shape.hidden(), partial);
  }

  // Zeroed, because products read padding, too.
  private DeviceBuffer allocate(int size) {
    return resources.zeroed(
        gpu, stream, weights.matrixType(), (long) LargeProducts.padded(rows) * size);
  }

  @Override
  public void close() {
    resources.close();
  }
}
