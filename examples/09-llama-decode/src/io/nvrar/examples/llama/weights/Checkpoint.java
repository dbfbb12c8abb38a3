package io.nvrar.examples.llama.weights;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.function.LongConsumer;

/**
 * The tensors of a model directory: {@code model.safetensors}, or the files that {@code
 * model.safetensors.index.json} names. Reads parts of them, as float32 and transposed: what a file
 * holds as {@code [outputs][inputs]} becomes {@code [inputs][outputs]}, in which the engine's loops
 * run over adjacent numbers without adding them up across lanes.
 */
public final class Checkpoint implements AutoCloseable {
  private static final String SINGLE = "model.safetensors";
  private static final String INDEX = "model.safetensors.index.json";
  private static final long MAX_INDEX_BYTES = 64 << 20;
  private static final long MAX_MAP_BYTES = 1 << 30;

  // Rows transposed together: 16 floats fill a cache line of the target.
  private static final int BLOCK = 16;

  private final Path directory;
  private final List<SafetensorsFile> files;
  private final LongConsumer progress;

  private Checkpoint(Path directory, List<SafetensorsFile> files, LongConsumer progress) {
    this.directory = directory;
    this.files = files;
    this.progress = progress;
  }

  /** Opens the files and checks their headers. */
  public static Checkpoint open(Path directory) {
    return open(directory, bytes -> {});
  }

  /**
   * Opens the files and checks their headers.
   *
   * @param directory the model directory
   * @param progress hears how many bytes a read has taken from the files
   */
  public static Checkpoint open(Path directory, LongConsumer progress) {
    List<SafetensorsFile> files = new ArrayList<>();
    try {
      for (Path path : paths(directory)) {
        files.add(SafetensorsFile.open(path));
      }
    } catch (RuntimeException e) {
      closeAll(files);
      throw e;
    }
    return new Checkpoint(directory, files, progress);
  }

  private static List<Path> paths(Path directory) {
    Path index = directory.resolve(INDEX);
    if (!Files.exists(index)) {
      Path single = directory.resolve(SINGLE);
      if (!Files.exists(single)) {
        throw new ModelException("%s holds neither %s nor %s.".formatted(directory, SINGLE, INDEX));
      }
      return List.of(single);
    }
    JsonFile map =
        JsonFile.read(index, MAX_INDEX_BYTES)
            .object("weight_map")
            .orElseThrow(() -> new ModelException(index + " lacks weight_map."));
    TreeSet<String> names = new TreeSet<>();
    for (String tensor : map.keys()) {
      map.string(tensor).ifPresent(names::add);
    }
    List<Path> paths = new ArrayList<>();
    for (String name : names) {
      Path path = directory.resolve(name);
      if (name.isEmpty() || !directory.equals(path.getParent())) {
        throw new ModelException(
            "%s names %s, which is no file beside it.".formatted(index, JsonFile.quoted(name)));
      }
      paths.add(path);
    }
    return paths;
  }

  /**
   * Checks that a tensor is there, of a known format and of a shape.
   *
   * @throws ModelException with both shapes, or with what is missing or unknown
   */
  void require(String name, List<Long> shape) {
    Located located = find(name);
    if (!located.tensor().shape().equals(shape)) {
      throw new ModelException(
          "%s: %s has the shape %s, and config.json asks for %s."
              .formatted(located.file().path(), name, located.tensor().shape(), shape));
    }
  }

  /** The bytes that one number of a tensor takes in its file. */
  int elementBytes(String name) {
    return find(name).format().sizeBytes();
  }

  /**
   * Reads rows of a matrix, which lie together in the file.
   *
   * @param name the matrix, {@code [rows][columns]}
   * @param rows the rows to read
   * @param target gets number c of row r at {@code [c][at + r]}
   * @param at see {@code target}
   */
  void readRows(String name, Range rows, float[][] target, int at) {
    Located located = find(name);
    int columns = target.length;
    long rowBytes = (long) columns * located.format().sizeBytes();
    int step = (int) Math.max(1, Math.min(rows.count(), MAX_MAP_BYTES / rowBytes));
    try {
      for (int done = 0; done < rows.count(); done += step) {
        int count = Math.min(step, rows.count() - done);
        ByteBuffer bytes =
            located
                .file()
                .map(
                    located.tensor().begin() + (rows.first() + (long) done) * rowBytes,
                    count * rowBytes);
        transpose(located.format(), bytes, count, columns, target, at + done);
        progress.accept(count * rowBytes);
      }
    } catch (IOException e) {
      throw unreadable(located, e);
    }
  }

  /**
   * Reads columns of a matrix, a piece of each row. The pieces are read, not mapped: a mapping for
   * each would be a system call and a kernel object per row.
   *
   * @param name the matrix, {@code [rows][totalColumns]}
   * @param columns the columns to read
   * @param totalColumns the columns that the matrix has
   * @param target gets number c of row r at {@code [c - columns.first()][r]}
   */
  void readColumns(String name, Range columns, int totalColumns, float[][] target) {
    if (columns.count() == 0) {
      return;
    }
    Located located = find(name);
    int size = located.format().sizeBytes();
    int rows = target[0].length;
    int pieceBytes = columns.count() * size;
    ByteBuffer pieces = ByteBuffer.allocateDirect(BLOCK * pieceBytes);
    pieces.order(ByteOrder.LITTLE_ENDIAN);
    try {
      for (int done = 0; done < rows; done += BLOCK) {
        int count = Math.min(BLOCK, rows - done);
        for (int row = 0; row < count; row++) {
          pieces.limit((row + 1) * pieceBytes).position(row * pieceBytes);
          long element = (long) (done + row) * totalColumns + columns.first();
          located.file().read(located.tensor().begin() + element * size, pieces);
        }
        transpose(located.format(), pieces, count, columns.count(), target, done);
        progress.accept((long) count * pieceBytes);
      }
    } catch (IOException e) {
      throw unreadable(located, e);
    }
  }

  /** Reads part of a vector to {@code target[at]} and on. */
  void readVector(String name, Range part, float[] target, int at) {
    Located located = find(name);
    int size = located.format().sizeBytes();
    ByteBuffer bytes = ByteBuffer.allocate(part.count() * size).order(ByteOrder.LITTLE_ENDIAN);
    try {
      located.file().read(located.tensor().begin() + (long) part.first() * size, bytes);
    } catch (IOException e) {
      throw unreadable(located, e);
    }
    for (int i = 0; i < part.count(); i++) {
      target[at + i] = located.format().read(bytes, i * size);
    }
    progress.accept(bytes.capacity());
  }

  @Override
  public void close() {
    closeAll(files);
  }

  private static void transpose(
      FloatFormat format, ByteBuffer bytes, int rows, int columns, float[][] target, int at) {
    int size = format.sizeBytes();
    for (int block = 0; block < rows; block += BLOCK) {
      int end = Math.min(rows, block + BLOCK);
      for (int column = 0; column < columns; column++) {
        float[] numbers = target[column];
        for (int row = block; row < end; row++) {
          numbers[at + row] = format.read(bytes, (row * columns + column) * size);
        }
      }
    }
  }

  private record Located(SafetensorsFile file, SafetensorsFile.Tensor tensor, FloatFormat format) {}

  private Located find(String name) {
    for (SafetensorsFile file : files) {
      Optional<SafetensorsFile.Tensor> tensor = file.tensor(name);
      if (tensor.isPresent()) {
        String format = tensor.get().format();
        return new Located(
            file,
            tensor.get(),
            SafetensorsFile.formatOf(format)
                .orElseThrow(
                    () ->
                        new ModelException(
                            "%s: %s has the unknown dtype %s, and this decoder reads F32, F16 and BF16."
                                .formatted(file.path(), name, format))));
      }
    }
    throw new ModelException("The safetensors files of " + directory + " lack " + name + ".");
  }

  private static ModelException unreadable(Located located, IOException e) {
    return new ModelException(
        "%s of %s cannot be read: %s.".formatted(located.tensor().name(), located.file().path(), e),
        e);
  }

  private static void closeAll(List<SafetensorsFile> files) {
    for (SafetensorsFile file : files) {
      try {
        file.close();
      } catch (IOException e) {
        // Only read from: nothing is lost that a later call could miss.
        System.getLogger(Checkpoint.class.getName())
            .log(System.Logger.Level.DEBUG, "closing " + file.path(), e);
      }
    }
  }
}
