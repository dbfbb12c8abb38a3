package io.nvrar.examples.llama.weights;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** Tells a pointer of Git LFS, which a clone without LFS leaves in the place of a large file. */
public final class LfsPointer {
  private static final String BEGINNING = "version https://git-lfs.";

  private LfsPointer() {}

  /**
   * Refuses a pointer.
   *
   * @param file which is there
   * @param kind what it should be
   * @throws ModelException if it is a pointer
   */
  public static void refuse(Path file, String kind) throws IOException {
    try (InputStream input = Files.newInputStream(file)) {
      byte[] first = input.readNBytes(BEGINNING.length());
      if (new String(first, StandardCharsets.US_ASCII).equals(BEGINNING)) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s is no %s but a pointer of Git LFS to one: git lfs pull fetches the file itself.",
                file,
                kind));
      }
    }
  }
}
