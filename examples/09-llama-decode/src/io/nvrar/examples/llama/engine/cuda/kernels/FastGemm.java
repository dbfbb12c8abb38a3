package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * A matrix product of a step ({@code gemm.cu}), for one shape, whichever layer's weights: of 16-bit
 * weights with up to 32 rows, on GPUs of compute capability 9.0 and newer. Not thread-safe.
 *
 * <p>A launch reads the weights before the kernel before it has ended, and all else after.
 */
public final class FastGemm {
  /** What becomes of the product. */
  public enum Output {
    /** It is written in float32. */
    OUT32,
    /** It is rounded to the weights' type, with a bias or without. */
    OUT,
    /** Its rows are scaled; the weights are gate and up, and silu(gate) * up is rounded. */
    GATED,
    /** Its rows are scaled; float32, and the greatest key of each block and row. */
    HEAD
  }

  private final Gpu gpu;
  private final DataType type;
  private final Output output;
  private final GemmPlan plan;
  private final CudaKernel kernel;
  private final LaunchConfig shape;
  private final KernelArguments arguments = new KernelArguments();

  /**
   * A product.
   *
   * @param image the kernels {@code gemm}
   * @param type of weights and rows: BFLOAT16 or FLOAT16
   * @param batch rows
   * @param features of the result
   * @param columns of the rows and the weights, a multiple of 64
   */
  public FastGemm(
      Gpu gpu,
      KernelImage image,
      DataType type,
      Output output,
      int batch,
      int features,
      int columns) {
    this.gpu = gpu;
    this.type = type;
    this.output = output;
    int sharedBytes = gpu.sharedBytesOfBlock();
    plan =
        GemmPlan.of(
            batch, features, columns, output == Output.GATED, gpu.multiprocessors(), sharedBytes);
    kernel =
        image
            .kernel(
                String.format(
                    Locale.ROOT,
                    "llama_gemm_%s_%s_%d",
                    lower(output),
                    suffix(type),
                    plan.columnTiles()))
            // Of all plans, because the limit belongs to the kernel and the last one set counts.
            .maxDynamicSharedBytes(GemmPlan.maxSharedBytes(sharedBytes));
    shape = LaunchConfig.of(plan.blocks(), GemmPlan.THREADS).dynamicSharedBytes(plan.sharedBytes());
  }

  /** The name of a 16-bit type in the names of kernels. */
  static String suffix(DataType type) {
    if (type != DataType.BFLOAT16 && type != DataType.FLOAT16) {
      throw new IllegalArgumentException("there are no fast kernels for " + type);
    }
    return lower(type);
  }

  /** A layer's weights, [features][columns], of GATED [2 * features][columns], for launches. */
  public TensorMap weights(DeviceBuffer weights) {
    require("weights", weights, type, rowsOfWeights() * columns());
    return MatrixMap.of(
        gpu, weights, rowsOfWeights(), columns(), plan.tileFeatures(), plan.stageBlocks());
  }

  /** The rows, [batch][columns], for launches. */
  public TensorMap rows(DeviceBuffer rows) {
    require("rows", rows, type, (long) plan.batch() * columns());
    return MatrixMap.of(gpu, rows, plan.batch(), columns(), plan.batch(), plan.stageBlocks());
  }

  /** How many keys HEAD writes for each row: one of each block. */
  public int keysOfRow() {
    return plan.blocks();
  }

  /** OUT32. */
  public void float32(
      DeviceStream stream,
      boolean programmatic,
      TensorMap weights,
      TensorMap rows,
      DeviceBuffer out) {
    begin(Output.OUT32, weights, rows, out, DataType.FLOAT32, 0, null);
    RowSquares.putNone(arguments);
    RowSampling.GREEDY.put(arguments.pointer(null));
    launch(stream, programmatic);
  }

  /** OUT. bias: FLOAT32 [features], or none. */
  public void rounded(
      DeviceStream stream,
      boolean programmatic,
      TensorMap weights,
      TensorMap rows,
      @Nullable DeviceBuffer bias,
      DeviceBuffer out) {
    if (bias != null) {
      require("bias", bias, DataType.FLOAT32, plan.features());
    }
    begin(Output.OUT, weights, rows, out, type, 0, bias);
    RowSquares.putNone(arguments);
    RowSampling.GREEDY.put(arguments.pointer(null));
    launch(stream, programmatic);
  }

  /** GATED. */
  public void gated(
      DeviceStream stream,
      boolean programmatic,
      TensorMap weights,
      TensorMap rows,
      RowSquares squares,
      DeviceBuffer out) {
    begin(Output.GATED, weights, rows, out, type, 0, null);
    putSquares(squares);
    RowSampling.GREEDY.put(arguments.pointer(null));
    launch(stream, programmatic);
  }

  /**
   * HEAD.
   *
   * @param firstToken the token of the first feature
   * @param logits FLOAT32 [batch][features]
   * @param keys INT64 [batch][{@link #keysOfRow}]
   */
  public void head(
      DeviceStream stream,
      boolean programmatic,
      TensorMap weights,
      TensorMap rows,
      RowSquares squares,
      int firstToken,
      RowSampling sampling,
      DeviceBuffer logits,
      DeviceBuffer keys) {
    require("keys", keys, DataType.INT64, (long) plan.batch() * keysOfRow());
    begin(Output.HEAD, weights, rows, logits, DataType.FLOAT32, firstToken, null);
    putSquares(squares);
    sampling.put(arguments.pointer(keys));
    launch(stream, programmatic);
  }

  private void begin(
      Output wanted,
      TensorMap weights,
      TensorMap rows,
      DeviceBuffer out,
      DataType outType,
      int firstToken,
      @Nullable DeviceBuffer bias) {
    if (output != wanted) {
      throw new IllegalStateException(
          String.format(Locale.ROOT, "a product for %s is no %s", output, wanted));
    }
    require("out", out, outType, (long) plan.batch() * plan.features());
    rows.put(weights.put(arguments.clear())).parameter();
    plan.put(arguments).int32(firstToken).pointer(out).pointer(bias);
  }

  private void putSquares(RowSquares squares) {
    require("squares", squares.sums(), DataType.FLOAT32, (long) plan.batch() * squares.parts());
    squares.put(arguments);
  }

  private void launch(DeviceStream stream, boolean programmatic) {
    kernel.launch(stream, shape.programmatic(programmatic), arguments);
  }

  private long rowsOfWeights() {
    return output == Output.GATED ? 2L * plan.features() : plan.features();
  }

  private int columns() {
    return plan.columnBlocks() * MatrixMap.BLOCK_COLUMNS;
  }

  /** Refuses a buffer of another type or with too few elements. */
  static void require(String what, DeviceBuffer buffer, DataType type, long count) {
    if (buffer.dataType() != type || buffer.count() < count) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s are %d elements of %s at least, not %d of %s",
              what,
              count,
              type,
              buffer.count(),
              buffer.dataType()));
    }
  }

  private static String lower(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT);
  }
}
