package io.nvrar.examples.llama.weights;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Writes a {@link RandomModel} as a model directory: {@code config.json} and the tensors, in one
 * file or, if they are large, in several with an index, as transformers does. Never holds more of
 * them in memory than a piece per thread.
 */
public final class CheckpointWriter {
  // As transformers splits models.
  private static final long MAX_FILE_BYTES = 5_000_000_000L;
  private static final int PIECE_BYTES = 16 << 20;
  private static final int HEADER_ALIGNMENT = 8;
  private static final double GIGABYTE = 1e9;

  private final long maxFileBytes;
  private final int pieceBytes;
  private final int threads;

  /** Writes with a number of threads. */
  public CheckpointWriter(int threads) {
    this(MAX_FILE_BYTES, PIECE_BYTES, threads);
  }

  CheckpointWriter(long maxFileBytes, int pieceBytes, int threads) {
    this.maxFileBytes = maxFileBytes;
    this.pieceBytes = pieceBytes;
    this.threads = threads;
  }

  /** The bytes of all tensors of a model. */
  public static long tensorBytes(RandomModel model) {
    return RankTensors.of(model.config(), Shard.of(model.config(), 0, 1))
        .bytes(FloatFormat.BF16, FloatFormat.BF16, FloatFormat.BF16);
  }

  /**
   * Checks what {@link #write} checks before it writes.
   *
   * @throws ModelException if the directory holds something or lacks room
   */
  public void check(Path directory, RandomModel model) {
    try {
      requireEmpty(directory);
      requireRoom(directory, tensorBytes(model));
    } catch (IOException e) {
      throw unwritable(directory, e);
    }
  }

  /**
   * Writes a model. If that fails, what was written is deleted.
   *
   * @param directory is created; if it exists, it must be empty
   * @param model the model
   * @param progress hears how many bytes were made since it heard last, from several threads
   * @throws ModelException if the directory holds something, lacks room or cannot be written
   */
  public void write(Path directory, RandomModel model, LongConsumer progress) {
    List<Path> written = new ArrayList<>();
    check(directory, model);
    try {
      Files.createDirectories(directory);
      try (TensorSource tensors = model.tensors(progress)) {
        writeAll(directory, model, tensors, written);
      } catch (IOException | RuntimeException | Error e) {
        delete(written, e);
        throw e;
      }
    } catch (IOException e) {
      throw unwritable(directory, e);
    }
  }

  private static ModelException unwritable(Path directory, IOException e) {
    return new ModelException(directory + " cannot be written: " + e + ".", e);
  }

  private static void requireEmpty(Path directory) throws IOException {
    if (Files.isDirectory(directory)) {
      try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
        if (entries.iterator().hasNext()) {
          throw new ModelException(
              directory + " holds something, and a model is written to an empty directory only.");
        }
      }
    } else if (Files.exists(directory)) {
      throw new ModelException(directory + " is no directory.");
    }
  }

  private static void requireRoom(Path directory, long bytes) throws IOException {
    Path existing = directory.toAbsolutePath();
    while (!Files.exists(existing) && existing.getParent() != null) {
      existing = existing.getParent();
    }
    long free = Files.getFileStore(existing).getUsableSpace();
    if (free < bytes) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "The weights take %.1f GB, and %s has %.1f GB free: %.1f GB are missing.",
              bytes / GIGABYTE,
              existing,
              free / GIGABYTE,
              (bytes - free) / GIGABYTE));
    }
  }

  private void writeAll(Path directory, RandomModel model, TensorSource tensors, List<Path> written)
      throws IOException {
    List<TensorFile> files = plan(LlamaTensors.shapes(model.config()));
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      for (int i = 0; i < files.size(); i++) {
        Path path = directory.resolve(name(i, files.size()));
        create(path, written);
        write(path, files.get(i), tensors, pool);
      }
    } finally {
      pool.shutdownNow();
    }
    if (files.size() > 1) {
      writeText(directory.resolve(Checkpoint.INDEX), index(files).toString(), written);
    }
    // Last, so that a directory which was left unfinished is no model.
    writeText(directory.resolve(LlamaConfig.FILE), model.configJson(), written);
  }

  private static String name(int file, int files) {
    return files == 1
        ? Checkpoint.SINGLE
        : String.format(Locale.ROOT, "model-%05d-of-%05d.safetensors", file + 1, files);
  }

  /** Tensors that are written to one file, in order. */
  private static final class TensorFile {
    final List<Entry> entries = new ArrayList<>();
    long bytes;

    /** One tensor: {@code begin} counts from the end of the header. */
    record Entry(String name, List<Long> shape, long begin, long bytes) {

      TensorPart whole() {
        int last = shape.get(shape.size() - 1).intValue();
        return shape.size() == 1
            ? TensorPart.vector(name, Range.of(last), last)
            : TensorPart.rows(name, Range.of(shape.get(0).intValue()), last);
      }
    }

    ByteBuffer header() {
      JsonObject header = new JsonObject();
      JsonObject metadata = new JsonObject();
      // transformers reads no file that does not say this.
      metadata.addProperty("format", "pt");
      header.add("__metadata__", metadata);
      for (Entry entry : entries) {
        JsonObject tensor = new JsonObject();
        tensor.addProperty("dtype", FloatFormat.BF16.name());
        tensor.add("shape", array(entry.shape));
        tensor.add("data_offsets", array(List.of(entry.begin, entry.begin + entry.bytes)));
        header.add(entry.name, tensor);
      }
      String json = header.toString();
      int padding = Math.floorMod(-json.length(), HEADER_ALIGNMENT);
      byte[] text = (json + " ".repeat(padding)).getBytes(UTF_8);
      ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES + text.length);
      return bytes.order(ByteOrder.LITTLE_ENDIAN).putLong(text.length).put(text).flip();
    }

    private static JsonArray array(List<Long> numbers) {
      JsonArray array = new JsonArray();
      numbers.forEach(array::add);
      return array;
    }
  }

  private List<TensorFile> plan(Map<String, List<Long>> shapes) {
    List<TensorFile> files = new ArrayList<>();
    TensorFile file = new TensorFile();
    for (Map.Entry<String, List<Long>> tensor : shapes.entrySet()) {
      long bytes = FloatFormat.BF16.sizeBytes();
      for (long dimension : tensor.getValue()) {
        bytes *= dimension;
      }
      if (!file.entries.isEmpty() && file.bytes + bytes > maxFileBytes) {
        files.add(file);
        file = new TensorFile();
      }
      file.entries.add(new TensorFile.Entry(tensor.getKey(), tensor.getValue(), file.bytes, bytes));
      file.bytes += bytes;
    }
    files.add(file);
    return files;
  }

  private record Piece(TensorPart part, long first, int bytes, long position) {}

  private void write(Path path, TensorFile file, TensorSource tensors, ExecutorService pool)
      throws IOException {
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.WRITE)) {
      ByteBuffer header = file.header();
      long dataBegin = header.remaining();
      write(channel, 0, header);
      List<Piece> pieces = new ArrayList<>();
      for (TensorFile.Entry entry : file.entries) {
        TensorPart whole = entry.whole();
        for (long at = 0; at < entry.bytes; at += pieceBytes) {
          int bytes = (int) Math.min(pieceBytes, entry.bytes - at);
          long first = at / FloatFormat.BF16.sizeBytes();
          pieces.add(new Piece(whole, first, bytes, dataBegin + entry.begin + at));
        }
      }
      writePieces(channel, pieces, tensors, pool);
    }
  }

  private void writePieces(
      FileChannel channel, List<Piece> pieces, TensorSource tensors, ExecutorService pool)
      throws IOException {
    AtomicInteger next = new AtomicInteger();
    List<Future<?>> running = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      running.add(
          pool.submit(
              () -> {
                ByteBuffer buffer = ByteBuffer.allocateDirect(pieceBytes);
                for (int own; (own = next.getAndIncrement()) < pieces.size(); ) {
                  Piece piece = pieces.get(own);
                  tensors.copy(piece.part, piece.first, buffer.clear().limit(piece.bytes));
                  write(channel, piece.position, buffer.flip());
                }
                return null;
              }));
    }
    @Nullable Throwable failure = null;
    for (Future<?> thread : running) {
      try {
        thread.get();
      } catch (ExecutionException e) {
        failure = e.getCause();
        next.set(pieces.size());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted", e);
      }
    }
    if (failure != null) {
      throw new IOException(failure);
    }
  }

  private static void write(FileChannel channel, long position, ByteBuffer bytes)
      throws IOException {
    long at = position;
    while (bytes.hasRemaining()) {
      at += channel.write(bytes, at);
    }
  }

  private static JsonObject index(List<TensorFile> files) {
    JsonObject map = new JsonObject();
    long total = 0;
    for (int i = 0; i < files.size(); i++) {
      for (TensorFile.Entry entry : files.get(i).entries) {
        map.addProperty(entry.name, name(i, files.size()));
      }
      total += files.get(i).bytes;
    }
    JsonObject metadata = new JsonObject();
    metadata.addProperty("total_size", total);
    JsonObject index = new JsonObject();
    index.add("metadata", metadata);
    index.add("weight_map", map);
    return index;
  }

  private static void writeText(Path path, String text, List<Path> written) throws IOException {
    create(path, written);
    Files.writeString(path, text);
  }

  // What another process has made meanwhile is not this one's to delete.
  private static void create(Path path, List<Path> written) throws IOException {
    Files.createFile(path);
    written.add(path);
  }

  private static void delete(List<Path> written, Throwable reason) {
    for (Path path : written) {
      try {
        Files.deleteIfExists(path);
      } catch (IOException e) {
        reason.addSuppressed(e);
      }
    }
  }
}
