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
 * Attention of a step ({@code attention.cu}), for one number of rows and one greatest context: from
 * the projection of queries, keys and values to the heads' results, with the keys and values added
 * to the cache. For caches of 16-bit elements, on GPUs of compute capability 9.0 and newer. Not
 * thread-safe.
 *
 * <p>A launch reads positions, sequences, page tables and the cache of earlier positions before the
 * kernel before it has ended, and all else after.
 */
public final class FastAttention {
  public static final int MAX_GROUP = 16;
  static final int MAX_CLUSTER = 16;

  private static final int THREADS = 160;
  private static final int MAX_STAGES = 3;
  private static final int ALIGNMENT = 1024;
  private static final int WARPS = 4;
  private static final int WARP_PADDING = 8;

  private final Gpu gpu;
  private final PagedCache cache;
  private final int heads;
  private final int batch;
  private final int cluster;
  private final int stages;
  private final CudaKernel kernel;
  private final CudaKernel append;
  private final LaunchConfig shape;
  private final LaunchConfig appendShape;
  private final TensorMap keys;
  private final TensorMap values;
  private final KernelArguments arguments = new KernelArguments();

  /**
   * What the rows of a step are.
   *
   * @param positions INT32 [batch]; -1 for a row that is idle, which gets zeros and adds nothing
   * @param sequences INT32 [batch]; null if row r belongs to sequence r
   */
  public record Rows(DeviceBuffer positions, @Nullable DeviceBuffer sequences) {}

  /**
   * Attention with as many blocks as run at once.
   *
   * @param image the kernels {@code attention}
   * @param heads query heads of this rank, a multiple of the cache's heads
   * @param batch rows of a step
   * @param context positions that a row may have
   */
  public FastAttention(
      Gpu gpu, KernelImage image, PagedCache cache, int heads, int batch, int context) {
    this(
        gpu,
        image,
        cache,
        heads,
        batch,
        context,
        cluster(batch * cache.keyValueHeads(), context, gpu.multiprocessors()));
  }

  /** Attention with clusters of at most so many blocks: 1, 2, 4, 8 or 16. */
  public FastAttention(
      Gpu gpu,
      KernelImage image,
      PagedCache cache,
      int heads,
      int batch,
      int context,
      int maxCluster) {
    this.gpu = gpu;
    this.cache = cache;
    this.heads = heads;
    this.batch = batch;
    requireShape(context, maxCluster);
    String suffix = FastGemm.suffix(cache.keys().dataType()) + "_" + cache.headSize();
    int stageBytes = 2 * PagedCache.PAGE_POSITIONS * cache.headSize() * Short.BYTES;
    kernel =
        image
            .kernel("llama_attention_" + suffix)
            .maxDynamicSharedBytes(sharedBytes(MAX_STAGES * stageBytes, MAX_GROUP))
            .allowNonPortableClusters();
    append = image.kernel("llama_append_" + suffix);
    appendShape = LaunchConfig.of(1, cache.headSize()).grid(cache.keyValueHeads(), batch, 1);

    int tiles = divideUp(context, PagedCache.PAGE_POSITIONS);
    int blocks = maxCluster;
    LaunchConfig wanted = shape(blocks, tiles, stageBytes);
    // A GPU may have no processor cluster with so many multiprocessors.
    while (blocks > 1 && kernel.maxActiveClusters(wanted) == 0) {
      blocks /= 2;
      wanted = shape(blocks, tiles, stageBytes);
    }
    cluster = blocks;
    stages = stages(tiles, blocks);
    shape = wanted;
    keys = map(cache.keys());
    values = map(cache.values());
  }

  /**
   * How many blocks share a row and a key/value head: as many as keep all of them running at once,
   * and as have a tile.
   *
   * @param pairs rows times key/value heads
   */
  static int cluster(int pairs, int context, int multiprocessors) {
    int tiles = divideUp(context, PagedCache.PAGE_POSITIONS);
    int cluster = 1;
    while (cluster < MAX_CLUSTER
        && 2L * pairs * cluster <= multiprocessors
        && 2 * cluster <= tiles) {
      cluster *= 2;
    }
    return cluster;
  }

  /** Blocks of a cluster. */
  int cluster() {
    return cluster;
  }

  /**
   * Attends with rows of which no two belong to one sequence.
   *
   * @param qkv FLOAT32 [batch][heads + 2 keyValueHeads][headSize], not yet scaled
   * @param bias FLOAT32 [heads + 2 keyValueHeads][headSize], or none
   * @param rope FLOAT32 [positions][headSize / 2][2]: cosine and sine
   * @param out [batch][heads][headSize]
   */
  public void launch(
      DeviceStream stream,
      boolean programmatic,
      int layer,
      DeviceBuffer qkv,
      @Nullable DeviceBuffer bias,
      RowSquares squares,
      DeviceBuffer rope,
      Rows rows,
      DeviceBuffer out) {
    values.put(keys.put(arguments.clear()));
    put(layer, 0, qkv, bias, squares, rope, rows, out);
    kernel.launch(stream, shape.programmatic(programmatic), arguments);
  }

  /**
   * Attends with rows of which several may belong to one sequence, as positions of a prompt do: the
   * keys and values of all are added first, by a kernel of its own. The parameters are those of
   * {@link #launch}.
   */
  public void launchAppended(
      DeviceStream stream,
      boolean programmatic,
      int layer,
      DeviceBuffer qkv,
      @Nullable DeviceBuffer bias,
      RowSquares squares,
      DeviceBuffer rope,
      Rows rows,
      DeviceBuffer out) {
    arguments.clear();
    put(layer, 1, qkv, bias, squares, rope, rows, out);
    append.launch(stream, appendShape.programmatic(programmatic), arguments);
    values.put(keys.put(arguments.clear()));
    put(layer, 1, qkv, bias, squares, rope, rows, out);
    kernel.launch(stream, shape.programmatic(programmatic), arguments);
  }

  private void put(
      int layer,
      int appended,
      DeviceBuffer qkv,
      @Nullable DeviceBuffer bias,
      RowSquares squares,
      DeviceBuffer rope,
      Rows rows,
      DeviceBuffer out) {
    int headSize = cache.headSize();
    long width = (long) (heads + 2 * cache.keyValueHeads()) * headSize;
    FastGemm.require("qkv", qkv, DataType.FLOAT32, batch * width);
    FastGemm.require("squares", squares.sums(), DataType.FLOAT32, (long) batch * squares.parts());
    FastGemm.require("rope", rope, DataType.FLOAT32, headSize);
    FastGemm.require("positions", rows.positions(), DataType.INT32, batch);
    FastGemm.require("out", out, cache.keys().dataType(), (long) batch * heads * headSize);
    if (bias != null) {
      FastGemm.require("bias", bias, DataType.FLOAT32, width);
    }
    if (rows.sequences() != null) {
      FastGemm.require("sequences", rows.sequences(), DataType.INT32, batch);
    }
    arguments
        .parameter()
        .int32(heads)
        .int32(cache.keyValueHeads())
        .int32(heads / cache.keyValueHeads())
        .int32(stages)
        .int32(Math.toIntExact(layer * cache.rowsOfLayer()))
        .int32(appended)
        .pointer(qkv)
        .pointer(bias);
    squares
        .put(arguments)
        .pointer(rope)
        .pointer(rows.positions())
        .pointer(rows.sequences())
        .pointer(cache.table())
        .int32(cache.pagesOfSequence())
        .pointer(cache.keys())
        .pointer(cache.values())
        .pointer(out);
  }

  private void requireShape(int context, int maxCluster) {
    int headSize = cache.headSize();
    int group = heads / cache.keyValueHeads();
    if (headSize != 64 && headSize != 128) {
      throw new IllegalArgumentException(
          "fast attention has heads of 64 or 128 numbers, not " + headSize);
    }
    if (heads % cache.keyValueHeads() != 0 || group > MAX_GROUP) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "fast attention has at most %d query heads for each key/value head, not %d for %d",
              MAX_GROUP,
              heads,
              cache.keyValueHeads()));
    }
    if (batch < 1 || context < 1) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "fast attention has 1 row and 1 position or more, not %d and %d",
              batch,
              context));
    }
    if (context > (long) cache.pagesOfSequence() * PagedCache.PAGE_POSITIONS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a context of %d positions does not fit in %d pages of a sequence",
              context,
              cache.pagesOfSequence()));
    }
    if (cache.rows() > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a cache of %d rows is larger than a tensor map can address",
              cache.rows()));
    }
    if (maxCluster > MAX_CLUSTER || Integer.bitCount(maxCluster) != 1) {
      throw new IllegalArgumentException(
          "a cluster has 1, 2, 4, 8 or 16 blocks, not " + maxCluster);
    }
    FastGemm.require("keys", cache.keys(), cache.keys().dataType(), cache.rows() * headSize);
    FastGemm.require("values", cache.values(), cache.keys().dataType(), cache.rows() * headSize);
  }

  private LaunchConfig shape(int blocks, int tiles, int stageBytes) {
    return LaunchConfig.of(blocks, THREADS)
        .grid(blocks, cache.keyValueHeads(), batch)
        .dynamicSharedBytes(
            sharedBytes(stages(tiles, blocks) * stageBytes, heads / cache.keyValueHeads()))
        .cluster(blocks);
  }

  private static int stages(int tiles, int blocks) {
    return Math.min(MAX_STAGES, divideUp(tiles, blocks));
  }

  // The warps' results take the place of the ring.
  private int sharedBytes(int ringBytes, int group) {
    int results = WARPS * group * (cache.headSize() + WARP_PADDING) * Float.BYTES;
    return ALIGNMENT + Math.max(ringBytes, results);
  }

  // A box is a page of one head.
  private TensorMap map(DeviceBuffer pool) {
    int headSize = cache.headSize();
    return MatrixMap.of(
        gpu,
        pool,
        cache.rows(),
        headSize,
        PagedCache.PAGE_POSITIONS,
        headSize / MatrixMap.BLOCK_COLUMNS);
  }

  private static int divideUp(int value, int by) {
    return (value + by - 1) / by;
  }
}
