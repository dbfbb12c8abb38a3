package io.nvrar;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What an all-reduce does with its sums before it stores them: it adds a residual or a bias, and
 * normalises. That saves the kernels that would follow the all-reduces of a transformer layer, and
 * their trips through memory. {@link CollectiveGroup#allReduce(DeviceBuffer, AllReduceFusion)}
 * takes it.
 *
 * <p>The elements are {@link DataType#BFLOAT16}, {@link DataType#FLOAT16} or {@link
 * DataType#FLOAT32}, the same in all buffers but the sums of squares. The input of the call, the
 * residuals and the output hold {@code rows * hidden} elements each, row after row: in a decode
 * step a row is a token. {@code hidden} is a multiple of 8 and at most {@link #MAX_HIDDEN}.
 *
 * <p>In the formulas below x is the sum over ranks, rounded to the type, and RMSNorm's scale of a
 * row of h is {@code s = 1 / sqrt(mean of h * h + eps)}. Everything is computed in float32, and
 * each element that is stored is rounded once. All ranks must pass the same form, type, rows,
 * hidden, eps and {@link Algorithm}. They should pass the same residual and weight, too: only then
 * all have the same results, bit by bit.
 *
 * <p>A group on GPUs of one host must have all of its ranks in one node. For all forms but {@link
 * #residual}, which is cut as needed, its rings must hold a row: {@link GroupConfig#ringBytes} is
 * at least {@code worldSize} times a row, rounded up to 512 bytes; for {@link Algorithm#TWO_SHOT} a
 * row, rounded up to {@code 512 * worldSize} bytes, is enough. The default holds every row. Between
 * hosts every form needs rings that hold a row. On the CPU rings may be smaller, and each member
 * keeps scratch memory as large as the output of its largest fused call until it is closed.
 *
 * <p>The end of a decode layer, with the residual stream in {@code state}, which is updated in
 * place, and the normalised rows of the next layer in {@code normed}:
 *
 * <pre>{@code
 * // Once, with buffers of the group's device:
 * AllReduceFusion addAndNorm =
 *     AllReduceFusion.residualRmsNorm(state, state, weight, 1e-5f, normed);
 * // In each step, when this rank's part of the layer has computed partial:
 * group.allReduce(partial, addAndNorm);
 * }</pre>
 *
 * <p>Immutable and thread-safe. It references the buffers and does not own them: they must be open
 * whenever a call uses them. That includes every launch of a graph into which a call was captured,
 * until the launch is complete: on the CPU a launch throws if a buffer is closed, a GPU uses the
 * memory without a look. The methods that create a fusion check types, counts and eps, and refuse
 * one buffer for what must be two; the call checks the addresses and the device.
 */
public final class AllReduceFusion {
  /** The longest row, in elements. */
  public static final int MAX_HIDDEN = 16_384;

  private static final int HIDDEN_MULTIPLE = 8;

  /** What the native library counts rows with. */
  private static final long MAX_ROWS = 0xFFFF_FFFFL;

  private static final String SUPPORTED = "a fused all-reduce takes FLOAT16, BFLOAT16 and FLOAT32";

  /** How much of a row one sum of squares covers. */
  private static final int SQUARES_BYTES = 128;

  private final Form form;
  private final int hidden;
  private final float eps;
  private final @Nullable DeviceBuffer residual;
  private final @Nullable DeviceBuffer weight;
  private final @Nullable DeviceBuffer residualOut;
  private final DeviceBuffer output;
  private final @Nullable DeviceBuffer squares;

  private AllReduceFusion(
      Form form,
      int hidden,
      float eps,
      @Nullable DeviceBuffer residual,
      @Nullable DeviceBuffer weight,
      @Nullable DeviceBuffer residualOut,
      DeviceBuffer output,
      @Nullable DeviceBuffer squares) {
    this.form = form;
    this.hidden = hidden;
    this.eps = eps;
    this.residual = residual;
    this.weight = weight;
    this.residualOut = residualOut;
    this.output = output;
    this.squares = squares;
  }

  /** What is computed of the sums. */
  public enum Form {
    /** {@link AllReduceFusion#residual}. */
    RESIDUAL(1),
    /** {@link AllReduceFusion#bias}. */
    BIAS(2),
    /** {@link AllReduceFusion#residualRmsNorm}. */
    RMS_NORM(3),
    /** {@link AllReduceFusion#residualRmsNormFold}. */
    RMS_FOLD(4);

    private final int code;

    Form(int code) {
      this.code = code;
    }

    /** The code of this form in the native library. */
    public int code() {
      return code;
    }
  }

  /**
   * Adds a residual: {@code output = x + residual}. The rows do not matter for the result, so they
   * are chosen from the count alone: {@link #hidden} is the largest multiple of 8 up to {@link
   * #MAX_HIDDEN} that divides it.
   *
   * @param residual {@code n} elements; n is a multiple of 8
   * @param output {@code n} elements; the call's input or {@code residual} itself, or memory that
   *     does not overlap them
   * @throws IllegalArgumentException if a buffer is null, or a type or a count does not fit
   */
  public static AllReduceFusion residual(DeviceBuffer residual, DeviceBuffer output) {
    checkRows(output);
    checkLike(output, "residual", residual);
    long count = output.count();
    if (count % HIDDEN_MULTIPLE != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "output holds %d elements, a fused all-reduce takes a multiple of %d",
              count,
              HIDDEN_MULTIPLE));
    }
    int hidden = MAX_HIDDEN;
    while (count % hidden != 0) {
      hidden -= HIDDEN_MULTIPLE;
    }
    checkRowCount(count, hidden);
    return new AllReduceFusion(Form.RESIDUAL, hidden, 0, residual, null, null, output, null);
  }

  /**
   * Adds a bias to each row: {@code output = x + bias}.
   *
   * @param bias {@code hidden} elements
   * @param output {@code rows * hidden} elements; the call's input itself, or memory that does not
   *     overlap it. It may not overlap {@code bias}
   * @throws IllegalArgumentException if a buffer is null, a type or a count does not fit, or one
   *     buffer is given for two
   */
  public static AllReduceFusion bias(DeviceBuffer bias, DeviceBuffer output) {
    checkRows(output);
    int hidden = checkHidden(output, "bias", bias);
    checkTwo("bias", bias, "output", output);
    return new AllReduceFusion(Form.BIAS, hidden, 0, null, bias, null, output, null);
  }

  /**
   * Adds a residual and normalises each row by RMSNorm: {@code residualOut = h = x + residual} and
   * {@code output = h * s * weight}.
   *
   * @param residual {@code rows * hidden} elements
   * @param residualOut {@code rows * hidden} elements: the residual of the next layer. {@code
   *     residual} or the call's input itself, or memory that does not overlap them
   * @param weight {@code hidden} elements
   * @param eps added to the mean of the squares; finite, 0 or more
   * @param output {@code rows * hidden} elements; the call's input or {@code residual} itself, or
   *     memory that does not overlap them. {@code output} and {@code residualOut} may overlap
   *     neither each other nor {@code weight}
   * @throws IllegalArgumentException if a buffer is null, a type or a count does not fit, eps is
   *     out of range, or one buffer is given for two
   */
  public static AllReduceFusion residualRmsNorm(
      DeviceBuffer residual,
      DeviceBuffer residualOut,
      DeviceBuffer weight,
      float eps,
      DeviceBuffer output) {
    checkRows(output);
    checkLike(output, "residual", residual);
    checkLike(output, "residualOut", residualOut);
    int hidden = checkHidden(output, "weight", weight);
    if (!(eps >= 0 && eps <= Float.MAX_VALUE)) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "eps is %s, RMSNorm needs a finite number of 0 or more", eps));
    }
    checkWritten(residualOut, weight, output);
    // Ranks whose eps are the two zeros do not differ.
    float oneZero = eps + 0f;
    return new AllReduceFusion(
        Form.RMS_NORM, hidden, oneZero, residual, weight, residualOut, output, null);
  }

  /**
   * Adds a residual and does the part of RMSNorm that needs no other element of the row: {@code
   * residualOut = h = x + residual} and {@code output = h * weight}. The scale s is left to the
   * consumer, such as the matrix multiplication that follows: it computes with {@code output} as if
   * that were normalised, and scales what comes out for a row by that row's s. It gets the mean of
   * h * h from the sums of squares: their sum, divided by hidden.
   *
   * @param residual {@code rows * hidden} elements
   * @param residualOut as in {@link #residualRmsNorm}
   * @param weight {@code hidden} elements
   * @param output as in {@link #residualRmsNorm}
   * @param squares {@link #squaresCount} elements of {@link DataType#FLOAT32}, row after row: the
   *     sums of the squares of h over 128 bytes of the row each. May overlap no other buffer
   * @throws IllegalArgumentException if a buffer is null, a type or a count does not fit, or one
   *     buffer is given for two
   */
  public static AllReduceFusion residualRmsNormFold(
      DeviceBuffer residual,
      DeviceBuffer residualOut,
      DeviceBuffer weight,
      DeviceBuffer output,
      DeviceBuffer squares) {
    checkRows(output);
    checkLike(output, "residual", residual);
    checkLike(output, "residualOut", residualOut);
    int hidden = checkHidden(output, "weight", weight);
    checkSquares(output, hidden, squares);
    checkWritten(residualOut, weight, output);
    // No other can be as long.
    checkTwo("weight", weight, "squares", squares);
    return new AllReduceFusion(
        Form.RMS_FOLD, hidden, 0, residual, weight, residualOut, output, squares);
  }

  /**
   * The number of sums of squares that {@link #residualRmsNormFold} stores: one for each 128 bytes
   * of a row, also for the rest at its end.
   *
   * @param type the type of the rows' elements
   * @param rows the number of rows
   * @param hidden the elements of a row
   * @throws IllegalArgumentException if a fused all-reduce cannot have such rows
   */
  public static long squaresCount(DataType type, long rows, int hidden) {
    if (type == null || !isSupported(type)) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "type is %s, %s", type, SUPPORTED));
    }
    if (rows < 0 || rows > MAX_ROWS || !isHidden(hidden)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "there are %d rows of %d elements, a fused all-reduce takes 0 to %d rows of a multiple of %d, at most %d",
              rows,
              hidden,
              MAX_ROWS,
              HIDDEN_MULTIPLE,
              MAX_HIDDEN));
    }
    int rowBytes = hidden * type.sizeBytes();
    return rows * ((rowBytes + SQUARES_BYTES - 1) / SQUARES_BYTES);
  }

  private static void checkRows(@Nullable DeviceBuffer output) {
    DataType type = checkGiven("output", output).dataType();
    if (!isSupported(type)) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "output holds %s, %s", type, SUPPORTED));
    }
  }

  private static boolean isSupported(DataType type) {
    return type.isFloat() && type != DataType.FLOAT64;
  }

  private static boolean isHidden(long count) {
    return count > 0 && count <= MAX_HIDDEN && count % HIDDEN_MULTIPLE == 0;
  }

  private static void checkLike(DeviceBuffer output, String name, @Nullable DeviceBuffer buffer) {
    DeviceBuffer given = checkGiven(name, buffer);
    checkType(output, name, given);
    if (given.count() != output.count()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s holds %d elements, output holds %d",
              name,
              given.count(),
              output.count()));
    }
  }

  /** Checks a buffer that holds one row, and returns its count. */
  private static int checkHidden(DeviceBuffer output, String name, @Nullable DeviceBuffer buffer) {
    DeviceBuffer row = checkGiven(name, buffer);
    checkType(output, name, row);
    long hidden = row.count();
    if (!isHidden(hidden)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s holds %d elements, a row has a multiple of %d, at most %d",
              name,
              hidden,
              HIDDEN_MULTIPLE,
              MAX_HIDDEN));
    }
    if (output.count() % hidden != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "output holds %d elements, which are no whole rows of the %d of %s",
              output.count(),
              hidden,
              name));
    }
    checkRowCount(output.count(), hidden);
    return (int) hidden;
  }

  private static void checkRowCount(long count, long hidden) {
    if (count / hidden > MAX_ROWS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "output holds %d rows of %d elements, a fused all-reduce takes at most %d",
              count / hidden,
              hidden,
              MAX_ROWS));
    }
  }

  private static void checkSquares(
      DeviceBuffer output, int hidden, @Nullable DeviceBuffer squares) {
    DeviceBuffer given = checkGiven("squares", squares);
    if (given.dataType() != DataType.FLOAT32) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "squares holds %s, sums of squares are FLOAT32", given.dataType()));
    }
    long rows = output.count() / hidden;
    long need = squaresCount(output.dataType(), rows, hidden);
    if (given.count() != need) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "squares holds %d elements, %d rows of %d %s need %d",
              given.count(),
              rows,
              hidden,
              output.dataType(),
              need));
    }
  }

  private static void checkWritten(
      DeviceBuffer residualOut, DeviceBuffer weight, DeviceBuffer output) {
    checkTwo("residualOut", residualOut, "output", output);
    checkTwo("weight", weight, "output", output);
    checkTwo("weight", weight, "residualOut", residualOut);
  }

  /** Refuses one buffer for what a call that has data could never take in the same memory. */
  private static void checkTwo(String nameA, DeviceBuffer a, String nameB, DeviceBuffer b) {
    if (a == b && a.count() > 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s and %s are the same buffer, a fused all-reduce needs two",
              nameA,
              nameB));
    }
  }

  private static void checkType(DeviceBuffer output, String name, DeviceBuffer buffer) {
    if (buffer.dataType() != output.dataType()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s holds %s, output holds %s",
              name,
              buffer.dataType(),
              output.dataType()));
    }
  }

  private static DeviceBuffer checkGiven(String name, @Nullable DeviceBuffer buffer) {
    if (buffer == null) {
      throw new IllegalArgumentException(name + " is null, a fused all-reduce needs a buffer");
    }
    return buffer;
  }

  /** What is computed. */
  public Form form() {
    return form;
  }

  /** The type of all elements but the sums of squares. */
  public DataType dataType() {
    return output.dataType();
  }

  /** The number of rows, 0 to 2^32 - 1. */
  public long rows() {
    return output.count() / hidden;
  }

  /** The elements of a row. */
  public int hidden() {
    return hidden;
  }

  /** What RMSNorm adds to the mean of the squares; 0 in the other forms. */
  public float eps() {
    return eps;
  }

  /** The residual that is added to the sums; null for a bias. */
  public @Nullable DeviceBuffer residualIn() {
    return residual;
  }

  /** The weight of RMSNorm, or the bias; null for a residual alone. */
  public @Nullable DeviceBuffer weight() {
    return weight;
  }

  /** Where the sums with the residual go; null without RMSNorm. */
  public @Nullable DeviceBuffer residualOut() {
    return residualOut;
  }

  /** Where the results go. */
  public DeviceBuffer output() {
    return output;
  }

  /** Where the sums of squares go; null but for {@link #residualRmsNormFold}. */
  public @Nullable DeviceBuffer squares() {
    return squares;
  }

  /** Such as {@code RMS_NORM of BFLOAT16[4 x 8192]}. */
  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%s of %s[%d x %d]", form, dataType(), rows(), hidden);
  }
}
