package io.nvrar.examples.llama.engine.cuda.kernels;

import com.sun.jna.Memory;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLt;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import java.util.HashMap;
import java.util.Map;

/**
 * Products of many rows by cuBLASLt, with sums in float32. Not thread-safe.
 *
 * <p>Rows are padded to a multiple of {@link #MULTIPLE}, so that few sizes are ever asked for: the
 * first product of a size chooses an algorithm, and may load a kernel, which waits for all that
 * runs on the GPU.
 */
public final class LargeProducts implements Resources.Resource {
  /** What rows are padded to. */
  public static final int MULTIPLE = 64;

  /** What NVIDIA advises for Hopper and Blackwell. */
  public static final long WORKSPACE_BYTES = 32 << 20;

  private final Resources resources = new Resources();
  private final Gpu gpu;
  private final CublasLt library;
  private final DataType type;
  private final long handle;
  private final long product;
  private final long preference;
  private final DeviceBuffer workspace;
  private final Memory one = new Memory(Float.BYTES);
  private final Memory zero = new Memory(Float.BYTES);
  private final Map<Size, Plan> plans = new HashMap<>();
  private int prepared;

  private record Size(int features, int columns, int rows) {}

  private record Plan(long weights, long rows, long out, Memory algorithm) {}

  /**
   * Products on a GPU.
   *
   * @param type of weights, rows and results: BFLOAT16 or FLOAT16
   */
  public LargeProducts(Gpu gpu, CublasLt library, DataType type) {
    this.gpu = gpu;
    this.library = library;
    this.type = type;
    one.setFloat(0, 1);
    zero.setFloat(0, 0);
    try {
      gpu.enter();
      handle = library.create();
      resources.own(() -> library.destroy(handle));
      product = library.createProduct();
      resources.own(() -> library.destroyProduct(product));
      preference = library.createPreference(WORKSPACE_BYTES);
      resources.own(() -> library.destroyPreference(preference));
      workspace = resources.allocate(gpu.device(), DataType.INT8, WORKSPACE_BYTES);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /** Up to how many rows every product of a model was made once. */
  public int prepared() {
    return prepared;
  }

  /** Says that every product of up to so many rows was made once. */
  public void prepared(int rows) {
    prepared = Math.max(prepared, rows);
  }

  /** So many rows with what they are padded by. */
  public static int padded(int rows) {
    return (rows + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
  }

  /**
   * Multiplies.
   *
   * @param rows how many; what they are padded by is multiplied, too, and may be any bits
   * @param x [padded rows][columns]
   * @param weights [features][columns]
   * @param out [padded rows][features]
   */
  public void multiply(
      DeviceStream stream,
      int rows,
      DeviceBuffer x,
      int columns,
      DeviceBuffer weights,
      int features,
      DeviceBuffer out) {
    int padded = padded(rows);
    FastGemm.require("x", x, type, (long) padded * columns);
    FastGemm.require("weights", weights, type, (long) features * columns);
    FastGemm.require("out", out, type, (long) padded * features);
    Plan plan = plans.computeIfAbsent(new Size(features, columns, padded), this::plan);
    gpu.enter();
    library.multiply(
        handle,
        product,
        one,
        weights.address(),
        plan.weights(),
        x.address(),
        plan.rows(),
        zero,
        out.address(),
        plan.out(),
        plan.algorithm(),
        workspace.address(),
        WORKSPACE_BYTES,
        stream.handle());
  }

  // A row-major matrix is the transpose of a column-major one.
  private Plan plan(Size size) {
    gpu.enter();
    long weights = matrix(size.columns(), size.features());
    long rows = matrix(size.columns(), size.rows());
    long out = matrix(size.features(), size.rows());
    return new Plan(
        weights, rows, out, library.algorithm(handle, product, weights, rows, out, preference));
  }

  private long matrix(int height, int width) {
    long matrix = library.createMatrix(type, height, width);
    resources.own(() -> library.destroyMatrix(matrix));
    return matrix;
  }

  @Override
  public String toString() {
    return library.toString();
  }

  @Override
  public void close() {
    gpu.enter();
    resources.close();
  }
}
