package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.RankTensor;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.TensorSource;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A rank's weights in a GPU's memory, matrices row-major as in the files. */
final class GpuWeights implements Resources.Resource {
  private static final int PIECE_BYTES = 8 << 20;

  private final Resources resources = new Resources();
  private final FloatFormat matrices;
  private final List<Layer> layers = new ArrayList<>();
  private final DeviceBuffer embedding;
  private final DeviceBuffer head;
  private final DeviceBuffer finalNorm;

  /** One layer; see {@link RankTensors.Layer}. Biases are FLOAT32. */
  record Layer(
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

  private GpuWeights(Loading loading, RankTensors tensors, FloatFormat matrices) {
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
      loading.stream.synchronize();
    } catch (RuntimeException | Error e) {
      closeAfter(e);
      throw e;
    }
  }

  /**
   * Loads a rank's weights.
   *
   * @param norms the format in which the scales of RMSNorm are kept
   * @param first whether this is rank 0, which alone has the biases of sums over ranks
   * @throws ModelException if the GPU's memory is too small, before anything is loaded
   */
  static GpuWeights load(
      Gpu gpu,
      DeviceStream stream,
      RankTensors tensors,
      TensorSource source,
      FloatFormat norms,
      boolean first) {
    FloatFormat matrices = tensors.matrixFormat(source);
    requireRoom(gpu, "The rank's weights", tensors.bytes(matrices, norms, FloatFormat.F32));
    return new GpuWeights(
        new Loading(gpu, stream, source, matrices, norms, first), tensors, matrices);
  }

  /** Throws if a GPU has not so many bytes free. */
  static void requireRoom(Gpu gpu, String what, long bytes) {
    long free = gpu.freeBytes();
    if (bytes > free) {
      throw new ModelException(
          "%s take %d bytes, and %s has %d free: %d bytes are missing."
              .formatted(what, bytes, gpu, free, bytes - free));
    }
  }

  /** The type of buffers that hold numbers of a format. */
  static DataType typeOf(FloatFormat format) {
    return switch (format) {
      case F32 -> DataType.FLOAT32;
      case F16 -> DataType.FLOAT16;
      case BF16 -> DataType.BFLOAT16;
    };
  }

  /** The type of the matrices. */
  DataType matrixType() {
    return typeOf(matrices);
  }

  List<Layer> layers() {
    return layers;
  }

  DeviceBuffer embedding() {
    return embedding;
  }

  DeviceBuffer head() {
    return head;
  }

  DeviceBuffer finalNorm() {
    return finalNorm;
  }

  @Override
  public void close() {
    resources.close();
  }

  private void closeAfter(Throwable failure) {
    try {
      resources.close();
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
  }

  /** Reads tensors piece by piece, and copies each while the next one is read. */
  private static final class Loading {
    private final Gpu gpu;
    private final DeviceStream stream;
    private final TensorSource source;
    private final FloatFormat matrices;
    private final FloatFormat norms;
    private final boolean first;
    private final ByteBuffer piece =
        ByteBuffer.allocateDirect(PIECE_BYTES).order(ByteOrder.LITTLE_ENDIAN);

    Loading(
        Gpu gpu,
        DeviceStream stream,
        TensorSource source,
        FloatFormat matrices,
        FloatFormat norms,
        boolean first) {
      this.gpu = gpu;
      this.stream = stream;
      this.source = source;
      this.matrices = matrices;
      this.norms = norms;
      this.first = first;
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
      FloatFormat format =
          switch (tensor.kind()) {
            case MATRIX -> matrices;
            case NORM -> norms;
            case BIAS -> FloatFormat.F32;
          };
      DeviceBuffer buffer = into.allocate(gpu.device(), typeOf(format), tensor.count());
      long bytes = tensor.bytes(format);
      int size = format.sizeBytes();
      for (long done = 0; done < bytes; done += PIECE_BYTES) {
        int count = (int) Math.min(PIECE_BYTES, bytes - done);
        tensor.read(source, format, done, piece.clear().limit(count));
        buffer.slice(done / size, count / size).copyFrom(piece.flip(), stream);
      }
      return buffer;
    }
  }
}
