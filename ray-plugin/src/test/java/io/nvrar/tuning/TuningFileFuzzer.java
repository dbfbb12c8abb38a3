package io.nvrar.tuning;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.TuningTable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Tuning files. */
public final class TuningFileFuzzer {
  /** Gson's buffers and an exception, some 50 KiB, and what the fuzzer's own hooks allocate. */
  private static final long MAX_BYTES = 2 * 1024 * 1024;

  /** A name may be all of the file, and goes through several hands on its way into a sentence. */
  private static final long MAX_BYTES_PER_BYTE = 64;

  private static final Path FILE = temporaryFile();

  private TuningFileFuzzer() {}

  /** The content of a file. */
  public static void fuzzerTestOneInput(byte[] data) throws IOException {
    Files.write(FILE, data);
    withinMemory(MAX_BYTES + MAX_BYTES_PER_BYTE * data.length, () -> read());
  }

  private static void read() {
    try {
      TuningTable table = TuningFile.read(FILE);
      holds(table.rules().size() <= TuningTable.MAX_RULES, "too many rules");
    } catch (IllegalArgumentException e) {
      holds(sentence(e).contains(FILE.toString()), "a refusal that does not name the file");
    }
  }

  private static Path temporaryFile() {
    try {
      Path file = Files.createTempFile("nvrar-fuzz", ".json");
      file.toFile().deleteOnExit();
      return file;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
