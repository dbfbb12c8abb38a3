package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The kernels of a chunk of a prompt ({@code prefill.cu}): of 16-bit rows, with heads of 64 or 128
 * numbers. Not thread-safe.
 */
public final class ChunkKernels {
  /** How many numbers of a row one sum of squares covers. */
  public static final int SQUARES = 64;

  /** Numbers of a tile in {@link #tiles}. */
  public static final int TILE_INTS = 4;

  private static final int THREADS = 256;
  private static final int ATTENTION_THREADS = 128;
  private static final int SMALL_TILE = 64;
  private static final int LARGE_TILE = 128;

  /** Numbers that a thread reads at once. */
  private static final int PIECE = 8;

  private final Gpu gpu;
  private final boolean programmatic;
  private final DataType type;
  private final int headSize;
  private final CudaKernel norm;
  private final CudaKernel rotate;
  private final CudaKernel attendSmall;
  private final CudaKernel attendLarge;
  private final CudaKernel gate;
  private final KernelArguments arguments = new KernelArguments();

  /** A row's place in its sequence. */
  public record Place(int sequence, int position) {}

  /**
   * The tiles that some rows are divided into: rows of one sequence and with neighbouring
   * positions.
   *
   * @param rowsOfTile most rows of a tile
   * @param numbers of each tile its first row, its rows, their sequence and the first's position
   */
  @SuppressWarnings("ArrayRecordComponent") // never changed
  public record Tiles(int rowsOfTile, int[] numbers) {
    public int count() {
      return numbers.length / TILE_INTS;
    }
  }

  /**
   * What is common to all layers.
   *
   * @param positions INT32 [rows]; -1 for a row that is idle
   * @param sequences INT32 [rows]
   * @param angles FLOAT32 [positions][headSize / 2][2]: cosine and sine
   * @param tiles INT32 [tiles][4]
   */
  public record Rows(
      int count,
      DeviceBuffer positions,
      DeviceBuffer sequences,
      DeviceBuffer angles,
      DeviceBuffer tiles,
      int tileCount,
      int rowsOfTile) {}

  /**
   * For a type and a size of heads.
   *
   * @param image the kernels {@code prefill}
   * @param programmatic whether launches may overlap
   */
  public ChunkKernels(
      Gpu gpu, KernelImage image, DataType type, int headSize, boolean programmatic) {
    this.gpu = gpu;
    this.programmatic = programmatic;
    this.type = type;
    this.headSize = headSize;
    String suffix = FastGemm.suffix(type);
    norm = image.kernel("llama_norm_chunk_" + suffix);
    gate = image.kernel("llama_gate_chunk_" + suffix);
    suffix += "_" + headSize;
    rotate = image.kernel("llama_rotate_chunk_" + suffix);
    attendSmall = attention(image, suffix, SMALL_TILE);
    attendLarge = attention(image, suffix, LARGE_TILE);
  }

  private CudaKernel attention(KernelImage image, String suffix, int rowsOfTile) {
    return image
        .kernel(String.format(Locale.ROOT, "llama_chunk_attention_%s_%d", suffix, rowsOfTile))
        .maxDynamicSharedBytes(sharedBytes(rowsOfTile));
  }

  // The queries of a tile, and two pages of keys and of values.
  private int sharedBytes(int rowsOfTile) {
    return (rowsOfTile + 4 * PagedCache.PAGE_POSITIONS) * headSize * type.sizeBytes();
  }

  /** Tiles of rows, large ones if there are enough for all multiprocessors. */
  public Tiles tiles(List<Place> rows, int heads) {
    int[] large = divided(rows, LARGE_TILE);
    return (long) large.length / TILE_INTS * heads >= gpu.multiprocessors()
        ? new Tiles(LARGE_TILE, large)
        : new Tiles(SMALL_TILE, divided(rows, SMALL_TILE));
  }

  /** The numbers of tiles of up to so many rows. */
  static int[] divided(List<Place> rows, int rowsOfTile) {
    List<int[]> tiles = new ArrayList<>();
    int[] last = new int[TILE_INTS];
    for (int row = 0; row < rows.size(); row++) {
      Place place = rows.get(row);
      boolean follows =
          row > 0
              && last[1] < rowsOfTile
              && place.sequence() == last[2]
              && place.position() == last[3] + last[1];
      if (!follows) {
        last = new int[] {row, 0, place.sequence(), place.position()};
        tiles.add(last);
      }
      last[1]++;
    }
    return tiles.stream().flatMapToInt(Arrays::stream).toArray();
  }

  /**
   * Adds the sums over ranks to the residual, and normalises.
   *
   * @param sums [rows][hidden]
   * @param residual [rows][hidden], which is only written if this begins it
   * @param gamma [hidden]
   * @param out [rows][hidden]: normalised; with squares, only times gamma
   * @param squares FLOAT32 [rows][hidden / 64]: those of the residual; null for none
   */
  public void norm(
      DeviceStream stream,
      int rows,
      int hidden,
      boolean begins,
      DeviceBuffer sums,
      DeviceBuffer residual,
      DeviceBuffer gamma,
      float epsilon,
      DeviceBuffer out,
      @Nullable DeviceBuffer squares) {
    long count = (long) rows * hidden;
    FastGemm.require("sums", sums, type, count);
    FastGemm.require("residual", residual, type, count);
    FastGemm.require("gamma", gamma, type, hidden);
    FastGemm.require("out", out, type, count);
    if (squares != null) {
      FastGemm.require("squares", squares, DataType.FLOAT32, count / SQUARES);
    }
    arguments
        .clear()
        .parameter()
        .pointer(sums)
        .pointer(residual)
        .pointer(gamma)
        .pointer(out)
        .pointer(squares)
        .int32(hidden)
        .float32(epsilon)
        .int32(begins ? 1 : 0);
    norm.launch(stream, shape(rows, 1, THREADS), arguments);
  }

  /**
   * Adds the bias, turns queries in place, and stores keys and values in the cache.
   *
   * @param qkv [rows][heads + 2 keyValueHeads][headSize]
   * @param bias FLOAT32 [heads + 2 keyValueHeads][headSize], or none
   */
  public void rotate(
      DeviceStream stream,
      Rows rows,
      PagedCache cache,
      int layer,
      int heads,
      DeviceBuffer qkv,
      @Nullable DeviceBuffer bias) {
    if (bias != null) {
      FastGemm.require("bias", bias, DataType.FLOAT32, width(cache, heads));
    }
    put(rows, cache, layer, heads, qkv, bias, null);
    rotate.launch(stream, shape(rows.count(), 1, THREADS), arguments);
  }

  /**
   * Attends, each row to the positions up to its own.
   *
   * @param qkv as {@link #rotate} leaves it
   * @param out [rows][heads][headSize]
   */
  public void attend(
      DeviceStream stream,
      Rows rows,
      PagedCache cache,
      int layer,
      int heads,
      DeviceBuffer qkv,
      DeviceBuffer out) {
    FastGemm.require("out", out, type, (long) rows.count() * heads * headSize);
    FastGemm.require("tiles", rows.tiles(), DataType.INT32, (long) rows.tileCount() * TILE_INTS);
    put(rows, cache, layer, heads, qkv, null, out);
    (rows.rowsOfTile() == LARGE_TILE ? attendLarge : attendSmall)
        .launch(
            stream,
            shape(heads, rows.tileCount(), ATTENTION_THREADS)
                .dynamicSharedBytes(sharedBytes(rows.rowsOfTile())),
            arguments);
  }

  /**
   * SwiGLU.
   *
   * @param gateUp [rows][2 width]: gate, then up
   * @param out [rows][width]
   */
  public void gate(
      DeviceStream stream, int rows, int width, DeviceBuffer gateUp, DeviceBuffer out) {
    FastGemm.require("gateUp", gateUp, type, 2L * rows * width);
    FastGemm.require("out", out, type, (long) rows * width);
    arguments.clear().parameter().pointer(gateUp).pointer(out).int32(width);
    int perBlock = THREADS * PIECE;
    gate.launch(stream, shape((width + perBlock - 1) / perBlock, rows, THREADS), arguments);
  }

  private void put(
      Rows rows,
      PagedCache cache,
      int layer,
      int heads,
      DeviceBuffer qkv,
      @Nullable DeviceBuffer bias,
      @Nullable DeviceBuffer out) {
    FastGemm.require("qkv", qkv, type, rows.count() * width(cache, heads));
    FastGemm.require("positions", rows.positions(), DataType.INT32, rows.count());
    FastGemm.require("sequences", rows.sequences(), DataType.INT32, rows.count());
    arguments
        .clear()
        .parameter()
        .int32(heads)
        .int32(cache.keyValueHeads())
        .int32(heads / cache.keyValueHeads())
        .int32(Math.toIntExact(layer * cache.rowsOfLayer()))
        .pointer(qkv)
        .pointer(bias)
        .pointer(rows.angles())
        .pointer(rows.positions())
        .pointer(rows.sequences())
        .pointer(cache.table())
        .int32(cache.pagesOfSequence())
        .pointer(rows.tiles())
        .pointer(cache.keys())
        .pointer(cache.values())
        .pointer(out);
  }

  private long width(PagedCache cache, int heads) {
    return (long) (heads + 2 * cache.keyValueHeads()) * headSize;
  }

  private LaunchConfig shape(int blocksX, int blocksY, int threads) {
    return LaunchConfig.of(blocksX, threads).grid(blocksX, blocksY, 1).programmatic(programmatic);
  }
}
