package io.nvrar.examples.llama.weights;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Locale;
import java.util.Objects;

/**
 * A tensor as a rank uses it, row-major: parts of the checkpoint's tensors, one below the other, or
 * one behind the other in a vector. Nothing is read before {@link #read}.
 */
public final class RankTensor {
  // What is converted at a time: stays in the first-level cache.
  private static final int CONVERTED_NUMBERS = 4096;

  private final String name;
  private final Kind kind;
  private final int rows;
  private final int columns;
  private final List<TensorPart> parts;

  /** What a tensor is used for, on which depends the format that it is wanted in. */
  public enum Kind {
    /** The weights of a projection, or an embedding. */
    MATRIX,
    /** What RMSNorm multiplies by. */
    NORM,
    /** What a projection adds. */
    BIAS
  }

  private RankTensor(String name, Kind kind, int rows, int columns, List<TensorPart> parts) {
    this.name = name;
    this.kind = kind;
    this.rows = rows;
    this.columns = columns;
    this.parts = parts;
  }

  /** Parts with as many columns each, one below the other. */
  static RankTensor matrix(String name, TensorPart... parts) {
    int rows = 0;
    for (TensorPart part : parts) {
      rows += part.rows().count();
    }
    return new RankTensor(name, Kind.MATRIX, rows, parts[0].columns().count(), List.of(parts));
  }

  /** Parts of vectors, one behind the other. */
  static RankTensor vector(String name, Kind kind, TensorPart... parts) {
    int columns = 0;
    for (TensorPart part : parts) {
      columns += part.columns().count();
    }
    return new RankTensor(name, kind, 1, columns, List.of(parts));
  }

  /** A name for messages, unique in the rank. */
  public String name() {
    return name;
  }

  /** What it is used for. */
  public Kind kind() {
    return kind;
  }

  /** Rows: the outputs of a projection, the words of an embedding, 1 for a vector. May be 0. */
  public int rows() {
    return rows;
  }

  /** Numbers in a row: the inputs of a projection, or the length of a vector. May be 0. */
  public int columns() {
    return columns;
  }

  /** How many numbers it has. */
  public long count() {
    return (long) rows * columns;
  }

  /** The bytes that it takes in a format. */
  public long bytes(FloatFormat format) {
    return count() * format.sizeBytes();
  }

  /** The bytes that a source reads for all of it. */
  public long sourceBytes(TensorSource source) {
    long bytes = 0;
    for (TensorPart part : parts) {
      bytes += part.count() * source.format(part.name()).sizeBytes();
    }
    return bytes;
  }

  /** Its parts, in order. */
  List<TensorPart> parts() {
    return parts;
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%s [%d][%d]", name, rows, columns);
  }

  /**
   * Fills a buffer with a piece of the tensor, little-endian. Where the source stores another
   * format than is wanted, numbers are converted, rounded to the nearest; else their bytes are
   * copied as they are. Several threads may read pieces at once, each into a buffer of its own.
   *
   * @param source where the numbers come from
   * @param format how they are wanted
   * @param offset the first byte of the piece within the {@link #bytes} of the tensor, a multiple
   *     of the format's size
   * @param target direct for speed; is filled from its position to its limit, whole numbers
   */
  public void read(TensorSource source, FloatFormat format, long offset, ByteBuffer target) {
    int size = format.sizeBytes();
    Objects.checkFromIndexSize(offset, (long) target.remaining(), bytes(format));
    if (offset % size != 0 || target.remaining() % size != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%d bytes from byte %d are no whole numbers of %s",
              target.remaining(),
              offset,
              format));
    }
    int limit = target.limit();
    long begin = offset / size;
    long end = begin + target.remaining() / size;
    long partBegin = 0;
    for (TensorPart part : parts) {
      long from = Math.max(begin, partBegin);
      long to = Math.min(end, partBegin + part.count());
      if (from < to) {
        target.limit(target.position() + (int) ((to - from) * size));
        read(source, part, from - partBegin, format, target);
      }
      partBegin += part.count();
    }
    target.limit(limit);
  }

  private static void read(
      TensorSource source, TensorPart part, long first, FloatFormat format, ByteBuffer target) {
    FloatFormat stored = source.format(part.name());
    if (stored == format) {
      source.copy(part, first, target);
      return;
    }
    ByteBuffer numbers = ByteBuffer.allocate(CONVERTED_NUMBERS * stored.sizeBytes());
    numbers.order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer converted = target.slice().order(ByteOrder.LITTLE_ENDIAN);
    int total = target.remaining() / format.sizeBytes();
    for (int done = 0; done < total; done += CONVERTED_NUMBERS) {
      int count = Math.min(CONVERTED_NUMBERS, total - done);
      source.copy(part, first + done, numbers.clear().limit(count * stored.sizeBytes()));
      for (int i = 0; i < count; i++) {
        float number = stored.read(numbers, i * stored.sizeBytes());
        format.write(converted, (done + i) * format.sizeBytes(), number);
      }
    }
    target.position(target.limit());
  }
}
