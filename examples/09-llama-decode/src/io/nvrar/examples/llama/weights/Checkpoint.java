package io.nvrar.examples.llama.weights;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.function.LongConsumer;

/**
 * The tensors of a model directory: {@code model.safetensors}, or without it the files that {@code
 * model.safetensors.index.json} names, as transformers takes them. Of what is not asked for,
 * nothing is read.
 */
public final class Checkpoint implements TensorSource {
  static final String SINGLE = "model.safetensors";
  static final String INDEX = "model.safetensors.index.json";
  private static final long MAX_INDEX_BYTES = 64 << 20;
  private static final List<String> PICKLED =
      List.of("pytorch_model.bin", "pytorch_model.bin.index.json");

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
   * @param progress hears how many bytes were read since it heard last, from whichever thread read
   *     them
   */
  public static Checkpoint open(Path directory, LongConsumer progress) {
    List<SafetensorsFile> files = new ArrayList<>();
    try {
      for (Path path : paths(directory)) {
        files.add(SafetensorsFile.open(path));
      }
      refuseDuplicates(files);
    } catch (RuntimeException e) {
      closeAll(files);
      throw e;
    }
    return new Checkpoint(directory, files, progress);
  }

  private static List<Path> paths(Path directory) {
    Path single = directory.resolve(SINGLE);
    if (Files.exists(single)) {
      return List.of(single);
    }
    Path index = directory.resolve(INDEX);
    if (!Files.exists(index)) {
      String pickled =
          PICKLED.stream()
              .filter(name -> Files.exists(directory.resolve(name)))
              .findFirst()
              .map(" It holds %s, and this decoder reads safetensors files only."::formatted)
              .orElse("");
      throw new ModelException(
          String.format(
              Locale.ROOT, "%s holds neither %s nor %s.%s", directory, SINGLE, INDEX, pickled));
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
            String.format(
                Locale.ROOT,
                "%s names %s, which is no file beside it.",
                index,
                JsonFile.quoted(name)));
      }
      paths.add(path);
    }
    return paths;
  }

  // transformers takes the last, the index may say another: which one is meant is a guess.
  private static void refuseDuplicates(List<SafetensorsFile> files) {
    Map<String, Path> found = new HashMap<>();
    for (SafetensorsFile file : files) {
      for (String name : file.names()) {
        Path other = found.put(name, file.path());
        if (other != null) {
          throw new ModelException(
              String.format(
                  Locale.ROOT,
                  "%s and %s both hold a tensor %s.",
                  other,
                  file.path(),
                  JsonFile.quoted(name)));
        }
      }
    }
  }

  @Override
  public boolean has(String name) {
    return files.stream().anyMatch(file -> file.tensor(name).isPresent());
  }

  @Override
  public FloatFormat format(String name) {
    return find(name).format();
  }

  @Override
  public void require(String name, List<Long> shape) {
    Located located = find(name);
    if (!located.tensor().shape().equals(shape)) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s: %s has the shape %s, and config.json asks for %s.",
              located.file().path(),
              name,
              located.tensor().shape(),
              shape));
    }
  }

  @Override
  public void copy(TensorPart part, long first, ByteBuffer target) {
    int bytes = target.remaining();
    Located located = find(part.name());
    int size = located.format().sizeBytes();
    long begin = located.tensor().begin();
    int width = part.columns().count();
    try {
      if (part.isContiguous()) {
        located.file().copy(begin + part.indexInTensor(first) * size, bytes, target);
      } else {
        long next = first;
        while (target.hasRemaining()) {
          int toRowEnd = width - (int) (next % width);
          int count = Math.min(toRowEnd, target.remaining() / size);
          located.file().copy(begin + part.indexInTensor(next) * size, count * size, target);
          next += count;
        }
      }
    } catch (IOException e) {
      throw unreadable(located, e);
    }
    progress.accept(bytes);
  }

  @Override
  public void close() {
    closeAll(files);
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
                            String.format(
                                Locale.ROOT,
                                "%s: %s has the unknown dtype %s, and this decoder reads F32, F16 and BF16.",
                                file.path(),
                                name,
                                format))));
      }
    }
    throw new ModelException("The safetensors files of " + directory + " lack " + name + ".");
  }

  private static ModelException unreadable(Located located, IOException e) {
    return new ModelException(
        String.format(
            Locale.ROOT,
            "%s of %s cannot be read: %s.",
            located.tensor().name(),
            located.file().path(),
            e),
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
