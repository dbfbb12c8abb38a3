package io.nvrar;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The k greatest elements of each row, where the columns of the rows are divided among the ranks of
 * a group: how many, and where the results go. {@link CollectiveGroup#topK(DeviceBuffer, TopK)}
 * takes it. Each rank sends k candidates of a row to all ranks, not its columns.
 *
 * <p>Every rank gets the same results. Of each row {@code values} has k elements, the greatest
 * first, and {@code indices} has where they stand in the row: {@link #firstIndex()} of their rank
 * and their column there. Of equal elements that of the lowest index comes first; -0 is below +0.
 * If a row has a NaN on any rank, all of its values are NaN and all of its indices -1. If it has
 * fewer than k columns on all ranks together, what is missing has the value negative infinity and
 * the index -1.
 *
 * <p>The tokens of a batch of 8 sequences, from logits whose vocabulary is divided equally among
 * the ranks:
 *
 * <pre>{@code
 * // Once, with buffers of the group's device:
 * long first = (long) group.rank() * columns;
 * DeviceBuffer tokens = group.device().allocate(DataType.INT32, 8);
 * TopK likeliest = TopK.argMax(columns, first, tokens);
 * // In each step, when this rank has computed its 8 x columns logits:
 * group.topK(logits, likeliest);
 * }</pre>
 *
 * <p>k, the number of rows and the type of the elements are the same on all ranks. The number of
 * columns may differ. Columns that have the same index on several ranks count as several. With 0
 * rows nothing is sent or stored.
 *
 * <p>Immutable and thread-safe; two calls at once need two of them, because each writes to these
 * buffers. It references the buffers and does not own them: they must be open whenever a call uses
 * them. That includes every launch of a graph into which a call was captured, until the launch is
 * complete: on the CPU a launch throws if a buffer is closed, a GPU uses the memory without a look.
 * Group statistics and flight records show a call as an all-gather of {@link DataType#INT64}, of k
 * elements a row, and one of more than 8192 candidates as several; events of JFR show one.
 */
public final class TopK {
  /** The largest k. */
  public static final int MAX_K = 1024;

  private static final String SUPPORTED = "a top-k takes FLOAT16, BFLOAT16 and FLOAT32";
  private static final long INDICES = 1L << 31;

  private final int k;
  private final long columns;
  private final long firstIndex;
  private final @Nullable DeviceBuffer values;
  private final DeviceBuffer indices;

  private TopK(
      int k, long columns, long firstIndex, @Nullable DeviceBuffer values, DeviceBuffer indices) {
    if (k < 1 || k > MAX_K) {
      throw new IllegalArgumentException("k is " + k + ", must be 1 to " + MAX_K);
    }
    if (columns < 0 || firstIndex < 0 || columns > INDICES || firstIndex > INDICES - columns) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "there are %d columns with indices from %d on, a top-k has indices from 0 to %d",
              columns,
              firstIndex,
              INDICES - 1));
    }
    checkIndices(indices, k);
    if (values != null) {
      checkValues(values, indices);
    }
    this.k = k;
    this.columns = columns;
    this.firstIndex = firstIndex;
    this.values = values;
    this.indices = indices;
  }

  /**
   * The k greatest elements of each row, and where they stand.
   *
   * @param k 1 to {@link #MAX_K}
   * @param columns of a row on this rank; ranks may have different numbers, also 0
   * @param firstIndex the index of this rank's first column
   * @param values {@code rows * k} elements of the input's type
   * @param indices {@code rows * k} elements of {@link DataType#INT32}
   */
  public static TopK of(
      int k, long columns, long firstIndex, DeviceBuffer values, DeviceBuffer indices) {
    if (values == null) {
      throw new IllegalArgumentException("values is null, a top-k needs a DeviceBuffer");
    }
    return new TopK(k, columns, firstIndex, values, indices);
  }

  /**
   * Where the greatest element of each row stands.
   *
   * @param columns of a row on this rank
   * @param firstIndex the index of this rank's first column
   * @param indices an element of {@link DataType#INT32} for each row
   */
  public static TopK argMax(long columns, long firstIndex, DeviceBuffer indices) {
    return new TopK(1, columns, firstIndex, null, indices);
  }

  private static void checkIndices(@Nullable DeviceBuffer indices, int k) {
    if (indices == null) {
      throw new IllegalArgumentException("indices is null, a top-k needs a DeviceBuffer");
    }
    if (indices.dataType() != DataType.INT32) {
      throw new IllegalArgumentException(
          "indices holds " + indices.dataType() + ", a top-k stores INT32");
    }
    if (indices.count() % k != 0 || indices.count() / k > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "indices holds %d elements, which are no rows of %d",
              indices.count(),
              k));
    }
  }

  private static void checkValues(DeviceBuffer values, DeviceBuffer indices) {
    checkType("values", values.dataType());
    if (values.count() != indices.count()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "values holds %d elements, indices holds %d",
              values.count(),
              indices.count()));
    }
  }

  private static void checkType(String name, DataType type) {
    if (type != DataType.FLOAT16 && type != DataType.BFLOAT16 && type != DataType.FLOAT32) {
      throw new IllegalArgumentException(name + " holds " + type + ", " + SUPPORTED);
    }
  }

  /**
   * Throws unless the rows of a call can be these.
   *
   * @throws IllegalArgumentException with what does not fit
   */
  public void checkInput(DeviceBuffer input) {
    DataType type = input.dataType();
    checkType("input", type);
    if (values != null && values.dataType() != type) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "input holds %s, values holds %s", type, values.dataType()));
    }
    long need = rows() * columns;
    if (input.count() != need) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "input holds %d elements, %d rows of %d columns need %d",
              input.count(),
              rows(),
              columns,
              need));
    }
  }

  /** How many elements of a row. */
  public int k() {
    return k;
  }

  /** The number of rows. */
  public int rows() {
    return (int) (indices.count() / k);
  }

  /** The number of columns of a row on this rank. */
  public long columns() {
    return columns;
  }

  /** The index of this rank's first column. */
  public long firstIndex() {
    return firstIndex;
  }

  /** Where the elements go; null if nobody wants them. */
  public @Nullable DeviceBuffer values() {
    return values;
  }

  /** Where their indices go. */
  public DeviceBuffer indices() {
    return indices;
  }

  @Override
  public String toString() {
    return "TopK[k " + k + ", " + rows() + " rows, indices from " + firstIndex + "]";
  }
}
