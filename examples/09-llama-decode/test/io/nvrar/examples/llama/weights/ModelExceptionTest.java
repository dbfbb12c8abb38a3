package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ModelExceptionTest {
  @TempDir private Path directory;

  @Test
  void whatWasWrongWithAFileIsTheCause() throws IOException {
    Files.writeString(directory.resolve("config.json"), "{'hidden_size'");
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("is not JSON")
        .hasCauseInstanceOf(EOFException.class);
  }
}
