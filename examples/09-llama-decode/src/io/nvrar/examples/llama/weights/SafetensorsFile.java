package io.nvrar.examples.llama.weights;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * An open safetensors file whose header has been checked: eight bytes of header length, a JSON
 * header, the tensors' bytes.
 */
final class SafetensorsFile implements AutoCloseable {
  // The cap of the format's own reader.
  private static final long MAX_HEADER_BYTES = 100_000_000;

  // Of a Llama they are two; the product of very many would take for ever.
  private static final int MAX_DIMENSIONS = 64;

  private final Path path;
  private final FileChannel channel;
  private final Map<String, Tensor> tensors;

  /**
   * One tensor.
   *
   * @param name its name
   * @param format the format's name as the file spells it
   * @param shape its dimensions
   * @param begin the first byte, from the start of the file
   * @param end one past the last byte
   */
  record Tensor(String name, String format, List<Long> shape, long begin, long end) {}

  private SafetensorsFile(Path path, FileChannel channel) throws IOException {
    this.path = path;
    this.channel = channel;
    this.tensors = readHeader(channel.size());
  }

  static SafetensorsFile open(Path path) {
    if (!Files.isRegularFile(path)) {
      throw new ModelException("There is no " + path + ".");
    }
    try {
      LfsPointer.refuse(path, "safetensors file");
      FileChannel channel = FileChannel.open(path, StandardOpenOption.READ);
      try {
        return new SafetensorsFile(path, channel);
      } catch (IOException | RuntimeException e) {
        channel.close();
        throw e;
      }
    } catch (IOException e) {
      throw new ModelException(path + " cannot be read: " + e + ".", e);
    }
  }

  Path path() {
    return path;
  }

  Set<String> names() {
    return tensors.keySet();
  }

  Optional<Tensor> tensor(String name) {
    return Optional.ofNullable(tensors.get(name));
  }

  /**
   * Copies bytes of the file to the position of a buffer, which moves on. Safe for use by several
   * threads with buffers of their own.
   *
   * <p>The file is not mapped: if it is truncated meanwhile, this says so, where a mapping would
   * end the copy by an error without a name, at once or later.
   */
  void copy(long position, int count, ByteBuffer target) throws IOException {
    int limit = target.limit();
    target.limit(target.position() + count);
    try {
      read(position, target);
    } finally {
      target.limit(limit);
    }
  }

  /** Fills {@code target} from the file. */
  void read(long position, ByteBuffer target) throws IOException {
    long at = position;
    while (target.hasRemaining()) {
      int count = channel.read(target, at);
      if (count < 0) {
        throw truncated("byte " + at + " was to be read", channel.size());
      }
      at += count;
    }
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  private Map<String, Tensor> readHeader(long size) throws IOException {
    if (size < Long.BYTES) {
      throw truncated("its header length takes 8 bytes", size);
    }
    ByteBuffer length = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    read(0, length);
    long headerBytes = length.getLong(0);
    if (headerBytes < 2 || headerBytes > MAX_HEADER_BYTES) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s is no safetensors file: its header would have %s bytes, and 2 to %d are allowed.",
              path,
              Long.toUnsignedString(headerBytes),
              MAX_HEADER_BYTES));
    }
    if (headerBytes > size - Long.BYTES) {
      throw truncated("its header ends at byte " + (Long.BYTES + headerBytes), size);
    }
    ByteBuffer text = ByteBuffer.allocate((int) headerBytes);
    read(Long.BYTES, text);
    JsonFile header =
        JsonFile.parse("The header of " + path, new String(text.array(), StandardCharsets.UTF_8));
    Map<String, Tensor> found = new HashMap<>();
    for (String name : header.keys()) {
      if (!name.equals("__metadata__")) {
        JsonFile entry = header.object(name).orElseThrow(() -> malformed(name));
        found.put(name, tensor(name, entry, Long.BYTES + headerBytes, size));
      }
    }
    refuseOverlap(found);
    return Map.copyOf(found);
  }

  private Tensor tensor(String name, JsonFile entry, long dataBegin, long fileSize) {
    String format = entry.string("dtype").orElseThrow(() -> malformed(name));
    List<Long> shape = entry.integers("shape");
    List<Long> offsets = entry.integers("data_offsets");
    if (!entry.has("shape")
        || shape.size() > MAX_DIMENSIONS
        || offsets.size() != 2
        || offsets.get(0) > offsets.get(1)) {
      throw malformed(name);
    }
    // Offsets are non-negative, so that the comparison with what is there cannot overflow.
    if (offsets.get(1) > fileSize - dataBegin) {
      throw truncated(
          JsonFile.quoted(name)
              + " ends at byte "
              + BigInteger.valueOf(dataBegin).add(big(offsets.get(1))),
          fileSize);
    }
    long bytes = offsets.get(1) - offsets.get(0);
    formatOf(format)
        .ifPresent(
            known -> {
              BigInteger expected = BigInteger.valueOf(known.sizeBytes());
              for (long dimension : shape) {
                expected = expected.multiply(big(dimension));
              }
              if (!expected.equals(big(bytes))) {
                throw new ModelException(
                    String.format(
                        Locale.ROOT,
                        "%s: %s has %d bytes, and its shape %s of %s takes %s.",
                        path,
                        JsonFile.quoted(name),
                        bytes,
                        shape,
                        format,
                        expected));
              }
            });
    return new Tensor(name, format, shape, dataBegin + offsets.get(0), dataBegin + offsets.get(1));
  }

  private void refuseOverlap(Map<String, Tensor> found) {
    List<Tensor> byPlace = new ArrayList<>(found.values());
    byPlace.removeIf(tensor -> tensor.begin() == tensor.end());
    byPlace.sort(Comparator.comparingLong(Tensor::begin));
    for (int i = 1; i < byPlace.size(); i++) {
      if (byPlace.get(i).begin() < byPlace.get(i - 1).end()) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s: the bytes of %s and %s overlap.",
                path,
                JsonFile.quoted(byPlace.get(i - 1).name()),
                JsonFile.quoted(byPlace.get(i).name())));
      }
    }
  }

  static Optional<FloatFormat> formatOf(String name) {
    for (FloatFormat format : FloatFormat.values()) {
      if (format.name().equals(name)) {
        return Optional.of(format);
      }
    }
    return Optional.empty();
  }

  private static BigInteger big(long value) {
    return BigInteger.valueOf(value);
  }

  private ModelException malformed(String name) {
    return new ModelException(
        String.format(
            Locale.ROOT,
            "The header of %s has a malformed entry %s.",
            path,
            JsonFile.quoted(name)));
  }

  private ModelException truncated(String wanted, long size) {
    return new ModelException(
        String.format(
            Locale.ROOT, "%s is truncated: %s, and the file has %d bytes.", path, wanted, size));
  }
}
