package io.nvrar.examples.llama.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class NpyWriterTest {
  @TempDir private Path directory;

  @Test
  void theHeaderHasTheShapeAndTheDataBeginsAtAMultipleOf64() throws IOException {
    Path file = directory.resolve("m.npy");
    Files.write(file, new byte[4096]);
    try (NpyWriter writer = new NpyWriter(file, 2)) {
      for (byte row = 0; row < 3; row++) {
        writer.append(new byte[] {row, 1, 2, 3, 4, 5, 6, 7});
      }
    }
    byte[] bytes = Files.readAllBytes(file);
    assertThat(bytes).hasSize(128 + 3 * 8);
    assertThat(bytes).startsWith(0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0);
    String header = new String(bytes, 10, 118, StandardCharsets.US_ASCII);
    assertThat(header.strip())
        .isEqualTo("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
    assertThat(header).endsWith("\n");
    assertThat(Arrays.copyOfRange(bytes, 136, 144)).containsExactly(1, 1, 2, 3, 4, 5, 6, 7);
  }

  @Test
  void aRowOfAnotherLengthIsRefused() throws IOException {
    try (NpyWriter writer = new NpyWriter(directory.resolve("m.npy"), 2)) {
      assertThatThrownBy(() -> writer.append(new byte[4]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("4 bytes in a matrix of 2 columns");
    }
  }
}
