package io.nvrar.examples.llama.text;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;

/**
 * Writes a matrix of float32 as NumPy's .npy, version 1.0, C order, little-endian, row by row. The
 * number of rows is written at {@link #close}, into a header of a fixed size.
 */
public final class NpyWriter implements AutoCloseable {
  private static final byte[] MAGIC = {(byte) 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  private static final int HEADER_BYTES = 128;

  private final FileChannel channel;
  private final int columns;
  private long rows;

  /** Creates or replaces a file. */
  public NpyWriter(Path file, int columns) throws IOException {
    this.columns = columns;
    channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE,
            StandardOpenOption.WRITE,
            StandardOpenOption.TRUNCATE_EXISTING);
    write(header(), 0);
  }

  /** The size of a file of so many rows. */
  public static long bytes(long rows, int columns) {
    return HEADER_BYTES + rows * columns * Float.BYTES;
  }

  /** Appends a row of little-endian floats. */
  public void append(byte[] row) throws IOException {
    if (row.length != (long) columns * Float.BYTES) {
      throw new IllegalArgumentException(
          "a row of " + row.length + " bytes in a matrix of " + columns + " columns");
    }
    write(ByteBuffer.wrap(row), HEADER_BYTES + rows * row.length);
    rows++;
  }

  @Override
  public void close() throws IOException {
    try (channel) {
      write(header(), 0);
    }
  }

  private ByteBuffer header() {
    String text =
        String.format(
            Locale.ROOT,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }",
            rows,
            columns);
    ByteBuffer header = ByteBuffer.allocate(HEADER_BYTES);
    header.put(MAGIC);
    int length = HEADER_BYTES - MAGIC.length - 2;
    header.put((byte) length).put((byte) (length >> 8));
    header.put(text.getBytes(StandardCharsets.US_ASCII));
    while (header.position() < HEADER_BYTES - 1) {
      header.put((byte) ' ');
    }
    return header.put((byte) '\n').flip();
  }

  private void write(ByteBuffer bytes, long position) throws IOException {
    long at = position;
    while (bytes.hasRemaining()) {
      at += channel.write(bytes, at);
    }
  }
}
