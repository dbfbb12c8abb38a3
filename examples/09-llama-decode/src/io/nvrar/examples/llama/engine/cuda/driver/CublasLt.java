package io.nvrar.examples.llama.engine.cuda.driver;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import io.nvrar.DataType;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.Locale;

/**
 * The functions of NVIDIA's cuBLASLt that multiply matrices, bound by JNA. Its types and numbers
 * are those of {@code cublasLt.h} of CUDA 12 and 13. All of its objects are longs.
 */
public final class CublasLt {
  /** {@code sizeof(cublasLtMatmulHeuristicResult_t)}, which begins with the algorithm. */
  static final int HEURISTIC_BYTES = 96;

  /** Of CUDA 12.0: what is older is not tried. */
  private static final long MIN_VERSION = 120_000;

  private static final int MAJOR = 10_000;
  private static final int MINOR = 100;

  // cublasComputeType_t, cudaDataType_t
  private static final int COMPUTE_FLOAT32 = 68;
  private static final int FLOAT32 = 0;

  // cublasLtMatmulDescAttributes_t, cublasOperation_t
  private static final int TRANSPOSE_A = 3;
  private static final int TRANSPOSED = 1;

  // cublasLtMatmulPreferenceAttributes_t
  private static final int MAX_WORKSPACE_BYTES = 1;

  // CUBLAS_STATUS_NOT_SUPPORTED
  private static final int NOT_SUPPORTED = 15;

  // cublasLtMatmulHeuristicResult_t: state
  private static final int STATE_AT = 72;

  private final String file;
  private final NativeLibrary library;
  private final long version;

  private CublasLt(String file, NativeLibrary library) {
    this.file = file;
    this.library = library;
    version = function("cublasLtGetVersion").invokeLong(new Object[0]);
    if (version < MIN_VERSION) {
      throw new ModelException(
          String.format(
              Locale.ROOT, "%s is cuBLASLt %s, and 12.0 or newer is needed", file, name(version)));
    }
  }

  /**
   * Opens it.
   *
   * @param file a name that the loader finds, or a path
   * @throws ModelException if that cannot be, it is no cuBLASLt or too old; without a full stop
   */
  static CublasLt open(String file) {
    NativeLibrary library;
    try {
      library = NativeLibrary.getInstance(file);
    } catch (UnsatisfiedLinkError e) {
      throw new ModelException(firstLine(e));
    }
    return new CublasLt(file, library);
  }

  private static String firstLine(UnsatisfiedLinkError error) {
    return String.valueOf(error.getMessage()).lines().findFirst().orElse("it cannot be loaded");
  }

  /** Such as {@code 13.1.0}. */
  String version() {
    return name(version);
  }

  private static String name(long version) {
    return String.format(
        Locale.ROOT, "%d.%d.%d", version / MAJOR, version % MAJOR / MINOR, version % MINOR);
  }

  /** A handle, on the current context. */
  public long create() {
    long[] handle = new long[1];
    check("cublasLtCreate", handle);
    return handle[0];
  }

  public void destroy(long handle) {
    check("cublasLtDestroy", handle);
  }

  /**
   * A product of column-major matrices of which the first is transposed, with sums, and factors on
   * the host, in float32.
   */
  public long createProduct() {
    long[] product = new long[1];
    check("cublasLtMatmulDescCreate", product, COMPUTE_FLOAT32, FLOAT32);
    check(
        "cublasLtMatmulDescSetAttribute",
        product[0],
        TRANSPOSE_A,
        new int[] {TRANSPOSED},
        (long) Integer.BYTES);
    return product[0];
  }

  public void destroyProduct(long product) {
    check("cublasLtMatmulDescDestroy", product);
  }

  /** A column-major matrix without gaps. */
  public long createMatrix(DataType type, long rows, long columns) {
    long[] matrix = new long[1];
    check("cublasLtMatrixLayoutCreate", matrix, typeOf(type), rows, columns, rows);
    return matrix[0];
  }

  public void destroyMatrix(long matrix) {
    check("cublasLtMatrixLayoutDestroy", matrix);
  }

  public long createPreference(long workspaceBytes) {
    long[] preference = new long[1];
    check("cublasLtMatmulPreferenceCreate", preference);
    check(
        "cublasLtMatmulPreferenceSetAttribute",
        preference[0],
        MAX_WORKSPACE_BYTES,
        new long[] {workspaceBytes},
        (long) Long.BYTES);
    return preference[0];
  }

  public void destroyPreference(long preference) {
    check("cublasLtMatmulPreferenceDestroy", preference);
  }

  /**
   * The algorithm that is likely the fastest for out = a^T b.
   *
   * @return memory that begins with it
   */
  public Memory algorithm(long handle, long product, long a, long b, long out, long preference) {
    Memory result = new Memory(HEURISTIC_BYTES);
    result.clear();
    int[] count = new int[1];
    check(
        "cublasLtMatmulAlgoGetHeuristic",
        handle,
        product,
        a,
        b,
        out,
        out,
        preference,
        1,
        result,
        count);
    require(
        "cublasLtMatmulAlgoGetHeuristic", count[0] == 0 ? NOT_SUPPORTED : result.getInt(STATE_AT));
    return result;
  }

  /** {@code cublasLtMatmul} with out = one a^T b + zero out. */
  public void multiply(
      long handle,
      long product,
      Pointer one,
      long a,
      long aMatrix,
      long b,
      long bMatrix,
      Pointer zero,
      long out,
      long outMatrix,
      Pointer algorithm,
      long workspace,
      long workspaceBytes,
      long stream) {
    check(
        "cublasLtMatmul",
        handle,
        product,
        one,
        a,
        aMatrix,
        b,
        bMatrix,
        zero,
        out,
        outMatrix,
        out,
        outMatrix,
        algorithm,
        workspace,
        workspaceBytes,
        stream);
  }

  private void check(String name, Object... arguments) {
    require(name, function(name).invokeInt(arguments));
  }

  private void require(String name, int status) {
    if (status != 0) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s of %s failed with %d: %s",
              name,
              this,
              status,
              function("cublasLtGetStatusString").invokeString(new Object[] {status}, false)));
    }
  }

  private Function function(String name) {
    try {
      return library.getFunction(name);
    } catch (UnsatisfiedLinkError e) {
      throw new ModelException(
          String.format(
              Locale.ROOT, "%s is no cuBLASLt that can be used here: it has no %s", file, name));
    }
  }

  // cudaDataType_t
  private static int typeOf(DataType type) {
    return switch (type) {
      case FLOAT16 -> 2;
      case BFLOAT16 -> 14;
      default -> throw new IllegalArgumentException("no rows of a chunk are of " + type);
    };
  }

  /** Such as {@code cuBLASLt 13.1.0}. */
  @Override
  public String toString() {
    return "cuBLASLt " + version();
  }
}
