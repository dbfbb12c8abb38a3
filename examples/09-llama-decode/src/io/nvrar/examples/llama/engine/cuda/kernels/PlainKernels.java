package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import java.util.Arrays;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The kernels for any shape ({@code plain.cu}), whose rows are float32. Not thread-safe. */
public final class PlainKernels {
  /** The largest head. */
  public static final int MAX_HEAD_SIZE = 256;

  private static final int WARPS = 8;
  private static final int WARP = 32;
  private static final int THREADS = WARPS * WARP;

  /** Outputs of a block of a product. */
  private static final int BLOCK_OUTPUTS = WARPS * 4;

  /** Rows that a block of a product may have. */
  private static final int[] BLOCK_ROWS = {1, 2, 4, 8};

  /** Query heads that share the reading of a key/value head, where that is possible. */
  private static final int SHARING_HEADS = 4;

  private final RankShape shape;
  private final CudaKernel[] multiply;
  private final CudaKernel addNorm;
  private final CudaKernel swiglu;
  private final CudaKernel rotate;
  private final CudaKernel attention;
  private final int blockHeads;
  private final KernelArguments arguments = new KernelArguments();

  /**
   * For a rank.
   *
   * @param image the kernels {@code plain}
   * @param weights the type of the matrices
   */
  public PlainKernels(KernelImage image, RankShape shape, DataType weights) {
    this.shape = shape;
    multiply =
        Arrays.stream(BLOCK_ROWS)
            .mapToObj(
                rows ->
                    image.kernel(
                        String.format(
                            Locale.ROOT, "llama_plain_gemm_%s_%d", StepEnds.name(weights), rows)))
            .toArray(CudaKernel[]::new);
    addNorm = image.kernel("llama_plain_add_norm");
    swiglu = image.kernel("llama_plain_swiglu");
    rotate = image.kernel("llama_plain_rotate");
    blockHeads = shape.sharesKeyValueHeadsBy(SHARING_HEADS) ? SHARING_HEADS : 1;
    int numbers = WARP;
    while (numbers < shape.headSize()) {
      numbers *= 2;
    }
    attention =
        image.kernel(
            String.format(Locale.ROOT, "llama_plain_attention_%d_%d", numbers / WARP, blockHeads));
  }

  /**
   * {@code out = x W + bias} for some rows.
   *
   * @param weights [outputs][inputs]
   * @param bias FLOAT32 [outputs], or none
   */
  public void multiply(
      DeviceStream stream,
      int rows,
      DeviceBuffer x,
      int inputs,
      DeviceBuffer weights,
      int outputs,
      @Nullable DeviceBuffer bias,
      DeviceBuffer out) {
    if (outputs == 0) {
      return;
    }
    int choice = 0;
    while (choice < BLOCK_ROWS.length - 1 && BLOCK_ROWS[choice] < rows) {
      choice++;
    }
    arguments
        .clear()
        .parameter()
        .pointer(x)
        .pointer(weights)
        .pointer(bias)
        .pointer(out)
        .int32(rows)
        .int32(inputs)
        .int32(outputs);
    multiply[choice].launch(
        stream,
        grid(divideUp(outputs, BLOCK_OUTPUTS), divideUp(rows, BLOCK_ROWS[choice]), THREADS),
        arguments);
  }

  /**
   * Adds sums over ranks to the residual stream, and normalises.
   *
   * @param begins whether the residual stream is the sum
   */
  public void addNorm(
      DeviceStream stream,
      int rows,
      DeviceBuffer sum,
      DeviceBuffer residual,
      boolean begins,
      DeviceBuffer gamma,
      float epsilon,
      DeviceBuffer out) {
    arguments
        .clear()
        .parameter()
        .pointer(sum)
        .pointer(residual)
        .pointer(gamma)
        .pointer(out)
        .int32(shape.hidden())
        .float32(epsilon)
        .int32(begins ? 1 : 0);
    addNorm.launch(stream, LaunchConfig.of(rows, THREADS), arguments);
  }

  /** {@code out = silu(gate) * up}. */
  public void swiglu(DeviceStream stream, int rows, DeviceBuffer gateUp, DeviceBuffer out) {
    if (shape.width() == 0) {
      return;
    }
    arguments.clear().parameter().pointer(gateUp).pointer(out).int32(shape.width());
    swiglu.launch(stream, grid(divideUp(shape.width(), THREADS), rows, THREADS), arguments);
  }

  /**
   * Turns queries and keys, and appends keys and values to the cache.
   *
   * @param angles FLOAT32 [positions][headSize / 2][2]: cosine and sine
   */
  public void rotate(
      DeviceStream stream,
      int rows,
      StepState state,
      PagedCache cache,
      int layer,
      DeviceBuffer queryKeyValue,
      DeviceBuffer angles) {
    beginRows(state, cache)
        .pointer(queryKeyValue)
        .pointer(angles)
        .int64(layerAddress(cache.keys(), cache, layer))
        .int64(layerAddress(cache.values(), cache, layer))
        .int32(shape.heads())
        .int32(shape.keyValueHeads())
        .int32(shape.headSize());
    int threads = divideUp(shape.headSize() / 2, WARP) * WARP;
    rotate.launch(
        stream, grid(rows, shape.heads() + 2 * shape.keyValueHeads(), threads), arguments);
  }

  /** Attention of what {@link #rotate} has turned. */
  public void attend(
      DeviceStream stream,
      int rows,
      StepState state,
      PagedCache cache,
      int layer,
      DeviceBuffer queryKeyValue,
      DeviceBuffer out) {
    beginRows(state, cache)
        .pointer(queryKeyValue)
        .int64(layerAddress(cache.keys(), cache, layer))
        .int64(layerAddress(cache.values(), cache, layer))
        .pointer(out)
        .int32(shape.heads())
        .int32(shape.keyValueHeads())
        .int32(shape.headSize())
        .int32(shape.firstHead())
        .int32(shape.firstKeyValueHead())
        .int32(shape.headsPerKeyValueHead())
        .float32((float) (1 / Math.sqrt(shape.headSize())));
    attention.launch(stream, grid(rows, shape.heads() / blockHeads, THREADS), arguments);
  }

  // PagedRows, whose size is a multiple of 8: an address follows.
  private KernelArguments beginRows(StepState state, PagedCache cache) {
    return arguments
        .clear()
        .parameter()
        .pointer(state.positions())
        .pointer(state.sequences())
        .pointer(cache.table())
        .int32(cache.pagesOfSequence());
  }

  private static long layerAddress(DeviceBuffer pool, PagedCache cache, int layer) {
    return pool.address() + layer * cache.rowsOfLayer() * cache.headSize() * Float.BYTES;
  }

  private static int divideUp(int value, int by) {
    return (value + by - 1) / by;
  }

  private static LaunchConfig grid(int x, int y, int threads) {
    return LaunchConfig.of(x, threads).grid(x, y, 1);
  }
}
