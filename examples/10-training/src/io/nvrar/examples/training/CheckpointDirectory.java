package io.nvrar.examples.training;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Keeps the two newest checkpoints of a run. One run at a time uses it. */
final class CheckpointDirectory {
  private static final String PATTERN = "step-[0-9]{8}[.]checkpoint";
  private static final String UNFINISHED = "unfinished";
  private static final int KEPT = 2;

  private final Path directory;

  /** Makes the directory if it is missing. */
  CheckpointDirectory(Path directory) throws IOException {
    this.directory = Files.createDirectories(directory);
    if (!Files.isWritable(directory)) {
      throw new TrainingException(directory + " cannot be written by this user");
    }
    Files.deleteIfExists(directory.resolve(UNFINISHED)); // of a run that was killed
  }

  /**
   * The newest checkpoint; null if there is none.
   *
   * @param options of the run that is to go on
   * @throws TrainingException if it is damaged, or of another run
   */
  @Nullable Checkpoint newest(Map<String, String> options) throws IOException {
    List<Path> files = files();
    if (files.isEmpty()) {
      return null;
    }
    Path file = files.get(files.size() - 1);
    Checkpoint checkpoint;
    try {
      checkpoint = Checkpoint.decode(Files.readAllBytes(file), file.toString());
    } catch (TrainingException e) {
      throw new TrainingException(
          e.getMessage()
              + (files.size() > 1
                  ? "; without this file the run goes on from the one before"
                  : "; without this file the run begins anew"),
          e);
    }
    String difference = checkpoint.difference(options);
    if (difference != null) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the checkpoint %s is of another run: %s; another directory for --checkpoints begins"
                  + " a new one",
              file,
              difference));
    }
    return checkpoint;
  }

  /** Adds one. Whoever ends this process meanwhile leaves the others as they were. */
  void write(Checkpoint checkpoint) throws IOException {
    Path unfinished = directory.resolve(UNFINISHED);
    try (FileChannel channel =
        FileChannel.open(
            unfinished,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      ByteBuffer bytes = ByteBuffer.wrap(checkpoint.encode());
      while (bytes.hasRemaining()) {
        channel.write(bytes);
      }
      channel.force(true);
    }
    Files.move(
        unfinished,
        directory.resolve(String.format(Locale.ROOT, "step-%08d.checkpoint", checkpoint.steps())),
        StandardCopyOption.ATOMIC_MOVE);
    List<Path> files = files();
    for (Path old : files.subList(0, Math.max(0, files.size() - KEPT))) {
      Files.deleteIfExists(old);
    }
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> all = Files.list(directory)) {
      return all.filter(file -> file.getFileName().toString().matches(PATTERN)).sorted().toList();
    } catch (NoSuchFileException e) {
      throw new TrainingException("the directory " + directory + " has been removed", e);
    }
  }
}
