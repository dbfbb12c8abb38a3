package io.nvrar.examples.llama.engine.cuda.loading;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.RankTensor;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.TensorSource;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A rank's weights in a GPU's memory, matrices row-major as in the files. */
public final class GpuWeights implements Resources.Resource {
  private static final int PIECE_BYTES = 8 << 20;

  private final Resources resources = new Resources();
  private final FloatFormat matrices;
  private final List<Layer> layers = new ArrayList<>();
  private final DeviceBuffer embedding;
  private final DeviceBuffer head;
  private final DeviceBuffer finalNorm;

  /** One layer; see {@link RankTensors.Layer}. Biases are FLOAT32. */
  public record Layer(
      DeviceBuffer attentionNorm,
      DeviceBuffer queryKeyValue,
      @Nullable DeviceBuffer queryKeyValueBias,
      DeviceBuffer attentionOutput,
      @Nullable DeviceBuffer attentionOutputBias,
      DeviceBuffer mlpNorm,
      DeviceBuffer gateUp,
      @Nullable DeviceBuffer gateUpBias,
      DeviceBuffer down,
      @Nullable DeviceBuffer downBias) {}

  private GpuWeights(Loading loading, RankTensors tensors, FloatFormat matrices, int threads) {
    this.matrices = matrices;
    try {
      for (RankTensors.Layer layer : tensors.layers()) {
        layers.add(loading.layer(layer, resources));
      }
      embedding = loading.load(tensors.embedding(), resources);
      head =
          tensors.head() == tensors.embedding()
              ? embedding
              : loading.load(tensors.head(), resources);
      finalNorm = loading.load(tensors.finalNorm(), resources);
      loading.pieces.run(threads, loading::lane);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /**
   * Loads a rank's weights.
   *
   * @param norms the format in which the scales of RMSNorm are kept
   * @param first whether this is rank 0, which alone has the biases of sums over ranks
   * @param threads how many fill what is copied
   */
  public static GpuWeights load(
      Gpu gpu,
      RankTensors tensors,
      TensorSource source,
      FloatFormat norms,
      boolean first,
      int threads) {
    FloatFormat matrices = tensors.matrixFormat(source);
    return new GpuWeights(
        new Loading(gpu, source, matrices, norms, first), tensors, matrices, threads);
  }

  /** The format in which a tensor is kept. */
  public static FloatFormat formatOf(RankTensor tensor, FloatFormat matrices, FloatFormat norms) {
    return switch (tensor.kind()) {
      case MATRIX -> matrices;
      case NORM -> norms;
      case BIAS -> FloatFormat.F32;
    };
  }

  /** The type of buffers that hold numbers of a format. */
  public static DataType typeOf(FloatFormat format) {
    return switch (format) {
      case F32 -> DataType.FLOAT32;
      case F16 -> DataType.FLOAT16;
      case BF16 -> DataType.BFLOAT16;
    };
  }

  /** The type of the matrices. */
  public DataType matrixType() {
    return typeOf(matrices);
  }

  public List<Layer> layers() {
    return layers;
  }

  public DeviceBuffer embedding() {
    return embedding;
  }

  public DeviceBuffer head() {
    return head;
  }

  public DeviceBuffer finalNorm() {
    return finalNorm;
  }

  @Override
  public void close() {
    resources.close();
  }

  /** Makes room for tensors, and knows their pieces. */
  private static final class Loading {
    private final Gpu gpu;
    private final FloatFormat matrices;
    private final FloatFormat norms;
    private final boolean first;
    private final ParallelLoading<DeviceBuffer> pieces;

    Loading(Gpu gpu, TensorSource source, FloatFormat matrices, FloatFormat norms, boolean first) {
      this.gpu = gpu;
      this.matrices = matrices;
      this.norms = norms;
      this.first = first;
      pieces = new ParallelLoading<>(source, PIECE_BYTES);
    }

    GpuLane lane() {
      return new GpuLane(gpu.device(), typeOf(matrices), PIECE_BYTES);
    }

    Layer layer(RankTensors.Layer layer, Resources into) {
      return new Layer(
          load(layer.attentionNorm(), into),
          load(layer.queryKeyValue(), into),
          loadBias(layer.queryKeyValueBias(), true, into),
          load(layer.attentionOutput(), into),
          loadBias(layer.attentionOutputBias(), first, into),
          load(layer.mlpNorm(), into),
          load(layer.gateUp(), into),
          loadBias(layer.gateUpBias(), true, into),
          load(layer.down(), into),
          loadBias(layer.downBias(), first, into));
    }

    private @Nullable DeviceBuffer loadBias(
        @Nullable RankTensor bias, boolean wanted, Resources into) {
      return bias == null || !wanted ? null : load(bias, into);
    }

    DeviceBuffer load(RankTensor tensor, Resources into) {
      FloatFormat format = formatOf(tensor, matrices, norms);
      DeviceBuffer buffer = into.allocate(gpu.device(), typeOf(format), tensor.count());
      pieces.add(tensor, format, buffer);
      return buffer;
    }
  }
}
