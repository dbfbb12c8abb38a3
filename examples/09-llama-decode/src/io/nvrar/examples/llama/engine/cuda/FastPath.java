package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import io.nvrar.examples.llama.engine.cuda.kernels.FastAttention;
import io.nvrar.examples.llama.engine.cuda.kernels.GemmPlan;
import io.nvrar.examples.llama.engine.cuda.kernels.MatrixMap;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.RowSampling;
import io.nvrar.examples.llama.engine.cuda.kernels.RowSquares;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.Shard;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The path for 16-bit weights: rows and cache are of the weights' type, and the norm is folded into
 * the all-reduce. That leaves a row times gamma and the sums of its squares, by which whoever
 * multiplies the row scales its result.
 */
final class FastPath extends StampedPath {
  /** How many elements one sum of squares covers. */
  private static final int SQUARES = 64;

  private static final int MIN_CAPABILITY = 9;

  /** That a block may have; smaller GPUs of the same architectures have less. */
  private static final int MIN_SHARED_BYTES = 227 << 10;

  /** The least context that attention is planned for. */
  private static final int MIN_CONTEXT = 256;

  private final Resources resources = new Resources();
  private final Gpu gpu;
  private final CollectiveGroup group;
  private final PartialSums sums;
  private final DeviceStream stream;
  private final boolean programmatic;
  private final RankShape shape;
  private final float epsilon;
  private final GpuWeights weights;
  private final StepEnds ends;
  private final KernelImage gemmImage;
  private final KernelImage attentionImage;
  private final StepState state;
  private final PagedCache cache;
  private final DeviceBuffer angles;
  private final @Nullable ChunkLayers chunks;
  private final DeviceBuffer zeros;
  private final DeviceBuffer partial;
  private final DeviceBuffer residual;
  private final DeviceBuffer scaled;
  private final DeviceBuffer squares;
  private final DeviceBuffer queryKeyValue;
  private final DeviceBuffer heads;
  private final DeviceBuffer wide;
  private final DeviceBuffer headRows;
  private final DeviceBuffer headSquares;
  private final DeviceBuffer headLogits;
  private final DeviceBuffer headKeys;

  /** What the last rows have left for the head. */
  private Left left;

  private final Map<Integer, FastProducts> products = new HashMap<>();
  private final Map<Integer, List<Pass>> passes = new HashMap<>();
  private final Map<Integer, List<AllReduceFusion>> fusions = new HashMap<>();
  private final Map<AttentionSize, FastAttention> attentions = new HashMap<>();

  private record AttentionSize(int rows, int context) {}

  private record Left(DeviceBuffer scaled, DeviceBuffer squares) {}

  /** Some rows of a step that are multiplied together, as each product reads them. */
  private record Pass(
      FastProducts products,
      int first,
      TensorMap forQueryKeyValue,
      TensorMap forAttentionOutput,
      TensorMap forGateUp,
      TensorMap forDown,
      TensorMap forHead) {
    int rows() {
      return products.rows();
    }

    DeviceBuffer part(DeviceBuffer buffer, int rowSize) {
      return buffer.slice((long) first * rowSize, (long) rows() * rowSize);
    }
  }

  /**
   * Makes room.
   *
   * @param chunks what takes rows of prompts together, and is closed with this; null for slices
   * @param rows of the largest step that it does not take
   * @param headRowCount rows of the largest head
   */
  FastPath(
      RankModel model,
      RequestState request,
      KernelImage gemmImage,
      KernelImage attentionImage,
      @Nullable ChunkLayers chunks,
      int rows,
      int headRowCount) {
    super(model.stream(), model.shape().layers());
    gpu = model.gpu();
    group = model.group();
    sums = request.sums();
    stream = model.stream();
    this.programmatic = group.config().cuda().programmaticLaunch();
    shape = model.shape();
    epsilon = model.epsilon();
    weights = model.weights();
    ends = model.ends();
    this.gemmImage = gemmImage;
    this.attentionImage = attentionImage;
    state = request.rows();
    cache = request.cache();
    angles = request.angles();
    this.chunks = chunks;
    if (chunks != null) {
      resources.own(chunks);
    }
    DataType type = weights.matrixType();
    try {
      zeros = resources.zeroed(gpu, stream, type, (long) rows * shape.hidden());
      partial = allocate(type, rows, shape.hidden());
      residual = allocate(type, rows, shape.hidden());
      scaled = allocate(type, rows, shape.hidden());
      squares = allocate(DataType.FLOAT32, rows, parts());
      queryKeyValue = allocate(DataType.FLOAT32, rows, shape.queryKeyValueSize());
      heads = allocate(type, rows, shape.attentionSize());
      wide = allocate(type, rows, shape.width());
      headRows = allocate(type, headRowCount, shape.hidden());
      headSquares = allocate(DataType.FLOAT32, headRowCount, parts());
      headLogits = allocate(DataType.FLOAT32, headRowCount, shape.vocabulary());
      headKeys = allocate(DataType.INT64, headRowCount, gpu.multiprocessors());
      left = new Left(scaled, squares);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /**
   * Whether a model can take this path on all ranks of a world.
   *
   * @param matrices the type of its matrices
   */
  static boolean takes(Gpu gpu, LlamaConfig config, int worldSize, DataType matrices) {
    boolean takes =
        gpu.capabilityMajor() >= MIN_CAPABILITY
            && gpu.sharedBytesOfBlock() >= MIN_SHARED_BYTES
            && KernelImage.exists("gemm")
            && KernelImage.exists("attention")
            && matrices != DataType.FLOAT32
            && !config.mlpBias()
            && config.hiddenSize() <= AllReduceFusion.MAX_HIDDEN;
    for (int rank = 0; takes && rank < worldSize; rank++) {
      takes = takes(RankShape.of(config, Shard.of(config, rank, worldSize)));
    }
    return takes;
  }

  private static boolean takes(RankShape shape) {
    return (shape.headSize() == 64 || shape.headSize() == 128)
        && shape.isEvenlyShared()
        && shape.heads() / shape.keyValueHeads() <= FastAttention.MAX_GROUP
        && isBlocks(shape.hidden())
        && isBlocks(shape.attentionSize())
        && isBlocks(shape.width())
        && shape.vocabulary() > 0;
  }

  private static boolean isBlocks(int columns) {
    return columns > 0 && columns % MatrixMap.BLOCK_COLUMNS == 0;
  }

  /** The bytes of a row of a step and of the head. */
  static long bytesOfRow(RankShape shape) {
    return 5L * shape.hidden() * Short.BYTES
        + 2L * shape.hidden() / SQUARES * Float.BYTES
        + (long) shape.queryKeyValueSize() * Float.BYTES
        + (long) (shape.attentionSize() + shape.width()) * Short.BYTES
        + (long) shape.vocabulary() * Float.BYTES;
  }

  @Override
  public int contextFor(int positions) {
    int context = MIN_CONTEXT;
    while (context < positions) {
      context *= 2;
    }
    return Math.min(context, cache.pagesOfSequence() * PagedCache.PAGE_POSITIONS);
  }

  @Override
  public void enqueueLayers(int rows, boolean isDecode, int context) {
    if (chunks != null && !isDecode && chunks.takes(rows)) {
      chunks.enqueue(rows);
      left = new Left(chunks.scaled(), chunks.squares());
      return;
    }
    left = new Left(scaled, squares);
    ends.embed(stream, shape, weights.embedding(), state, rows, partial);
    ended("embed", -1);
    reduce(rows, 0);
    ended("all-reduce", -1);
    RowSquares allSquares = squaresOf(squares);
    FastAttention attention = attention(rows, context);
    FastAttention.Rows which = new FastAttention.Rows(state.positions(), state.sequences());
    for (int i = 0; i < shape.layers(); i++) {
      GpuWeights.Layer layer = weights.layers().get(i);
      for (Pass pass : passes(rows)) {
        pass.products()
            .queryKeyValue()
            .float32(
                stream,
                programmatic,
                pass.products().maps(i).queryKeyValue(),
                pass.forQueryKeyValue(),
                pass.part(queryKeyValue, shape.queryKeyValueSize()));
      }
      ended("qkv", i);
      if (isDecode) {
        attention.launch(
            stream,
            programmatic,
            i,
            queryKeyValue,
            layer.queryKeyValueBias(),
            allSquares,
            angles,
            which,
            heads);
      } else {
        attention.launchAppended(
            stream,
            programmatic,
            i,
            queryKeyValue,
            layer.queryKeyValueBias(),
            allSquares,
            angles,
            which,
            heads);
      }
      ended("attention", i);
      for (Pass pass : passes(rows)) {
        pass.products()
            .attentionOutput()
            .rounded(
                stream,
                programmatic,
                pass.products().maps(i).attentionOutput(),
                pass.forAttentionOutput(),
                layer.attentionOutputBias(),
                pass.part(partial, shape.hidden()));
      }
      ended("o", i);
      reduce(rows, 2 * i + 1);
      ended("all-reduce", i);
      for (Pass pass : passes(rows)) {
        pass.products()
            .gateUp()
            .gated(
                stream,
                programmatic,
                pass.products().maps(i).gateUp(),
                pass.forGateUp(),
                squaresOf(pass.part(squares, parts())),
                pass.part(wide, shape.width()));
      }
      ended("gate/up", i);
      for (Pass pass : passes(rows)) {
        pass.products()
            .down()
            .rounded(
                stream,
                programmatic,
                pass.products().maps(i).down(),
                pass.forDown(),
                null,
                pass.part(partial, shape.hidden()));
      }
      ended("down", i);
      reduce(rows, 2 * i + 2);
      ended("all-reduce", i);
    }
  }

  @Override
  public void enqueueLogits(int[] rows, DeviceBuffer logits) {
    copyRows(rows, left.scaled(), headRows, shape.hidden());
    copyRows(rows, left.squares(), headSquares, parts());
    for (int first = 0; first < rows.length; first += GemmPlan.MAX_BATCH) {
      int count = Math.min(GemmPlan.MAX_BATCH, rows.length - first);
      FastProducts product = products(count);
      multiplyHead(
          product,
          product.head().rows(part(headRows, first, count, shape.hidden())),
          part(headSquares, first, count, parts()),
          RowSampling.GREEDY,
          part(logits, first, count, shape.vocabulary()));
    }
  }

  @Override
  public DeviceBuffer enqueueHead(int rows) {
    for (Pass pass : passes(rows)) {
      multiplyHead(
          pass.products(),
          pass.forHead(),
          pass.part(squares, parts()),
          RowSampling.GREEDY,
          pass.part(headLogits, shape.vocabulary()));
    }
    ended("head", -1);
    return part(headLogits, 0, rows, shape.vocabulary());
  }

  @Override
  public void enqueueBest(int rows, RowSampling sampling, DeviceBuffer best) {
    for (Pass pass : passes(rows)) {
      multiplyHead(
          pass.products(),
          pass.forHead(),
          pass.part(squares, parts()),
          partOf(sampling, pass),
          pass.part(headLogits, shape.vocabulary()));
      ended("head", -1);
      ends.best(
          stream, pass.rows(), headKeys, pass.products().head().keysOfRow(), pass.part(best, 1));
      ended("best", -1);
    }
  }

  @Override
  public boolean isProgrammatic() {
    return programmatic;
  }

  @Override
  public void close() {
    resources.close();
  }

  private static RowSampling partOf(RowSampling sampling, Pass pass) {
    return new RowSampling(
        partOf(sampling.temperatures(), pass),
        sampling.seed(),
        partOf(sampling.sequences(), pass),
        partOf(sampling.positions(), pass));
  }

  private static @Nullable DeviceBuffer partOf(@Nullable DeviceBuffer numbers, Pass pass) {
    return numbers == null ? null : pass.part(numbers, 1);
  }

  private void multiplyHead(
      FastProducts product,
      TensorMap rows,
      DeviceBuffer rowSquares,
      RowSampling sampling,
      DeviceBuffer logits) {
    product
        .head()
        .head(
            stream,
            programmatic,
            product.headMap(),
            rows,
            squaresOf(rowSquares),
            shape.firstToken(),
            sampling,
            logits,
            headKeys);
  }

  private void copyRows(int[] rows, DeviceBuffer from, DeviceBuffer to, int size) {
    for (int i = 0; i < rows.length; i++) {
      stream.copy(part(from, rows[i], 1, size), part(to, i, 1, size));
    }
  }

  private static DeviceBuffer part(DeviceBuffer buffer, int first, int count, int rowSize) {
    return buffer.slice((long) first * rowSize, (long) count * rowSize);
  }

  private void reduce(int rows, int index) {
    sums.allReduce(
        part(partial, 0, rows, shape.hidden()),
        fusions.computeIfAbsent(rows, this::fusionsOf).get(index),
        stream);
  }

  // The first begins the residual stream, then there are two a layer; each has the scale of the
  // norm that follows.
  private List<AllReduceFusion> fusionsOf(int rows) {
    DeviceBuffer stateRows = part(residual, 0, rows, shape.hidden());
    List<AllReduceFusion> made = new ArrayList<>();
    made.add(fusion(rows, part(zeros, 0, rows, shape.hidden()), stateRows, normOf(0)));
    for (int i = 0; i < shape.layers(); i++) {
      made.add(fusion(rows, stateRows, stateRows, weights.layers().get(i).mlpNorm()));
      made.add(fusion(rows, stateRows, stateRows, normOf(i + 1)));
    }
    return made;
  }

  private DeviceBuffer normOf(int layer) {
    return layer == shape.layers()
        ? weights.finalNorm()
        : weights.layers().get(layer).attentionNorm();
  }

  private AllReduceFusion fusion(
      int rows, DeviceBuffer before, DeviceBuffer after, DeviceBuffer gamma) {
    return AllReduceFusion.residualRmsNormFold(
        before,
        after,
        gamma,
        part(scaled, 0, rows, shape.hidden()),
        part(squares, 0, rows, parts()));
  }

  private List<Pass> passes(int rows) {
    return passes.computeIfAbsent(
        rows,
        all -> {
          List<Pass> made = new ArrayList<>();
          for (int first = 0; first < all; first += GemmPlan.MAX_BATCH) {
            made.add(pass(first, Math.min(GemmPlan.MAX_BATCH, all - first)));
          }
          return made;
        });
  }

  private Pass pass(int first, int rows) {
    FastProducts product = products(rows);
    DeviceBuffer scaledRows = part(scaled, first, rows, shape.hidden());
    return new Pass(
        product,
        first,
        product.queryKeyValue().rows(scaledRows),
        product.attentionOutput().rows(part(heads, first, rows, shape.attentionSize())),
        product.gateUp().rows(scaledRows),
        product.down().rows(part(wide, first, rows, shape.width())),
        product.head().rows(scaledRows));
  }

  private FastProducts products(int rows) {
    return products.computeIfAbsent(
        rows, count -> new FastProducts(gpu, gemmImage, shape, weights, count));
  }

  private FastAttention attention(int rows, int context) {
    return attentions.computeIfAbsent(
        new AttentionSize(rows, context),
        size ->
            new FastAttention(
                gpu, attentionImage, cache, shape.heads(), size.rows(), size.context()));
  }

  private RowSquares squaresOf(DeviceBuffer sums) {
    return new RowSquares(sums, parts(), shape.hidden(), epsilon);
  }

  private int parts() {
    return shape.hidden() / SQUARES;
  }

  private DeviceBuffer allocate(DataType type, int rows, int size) {
    return resources.allocate(group.device(), type, (long) rows * size);
  }
}
