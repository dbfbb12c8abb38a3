package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class LlamaWeightsTest {

  // Surefire runs the tests in the module's directory. mha5 has a bias everywhere.
  @ParameterizedTest
  @ValueSource(strings = {"gqa8", "llama3rope7", "mha5"})
  void oneRankReadsAllThatTheFileHolds(String name) throws IOException {
    Path model = Path.of("09-llama-decode", "test-models", name);
    LlamaConfig config = LlamaConfig.read(model);
    try (Checkpoint checkpoint = Checkpoint.open(model)) {
      assertThat(LlamaWeights.fileBytes(checkpoint, config, Shard.of(config, 0, 1)))
          .isEqualTo(tensorBytes(model.resolve("model.safetensors")));
    }
  }

  private static long tensorBytes(Path safetensors) throws IOException {
    try (FileChannel file = FileChannel.open(safetensors)) {
      ByteBuffer header = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      file.read(header, 0);
      return file.size() - Long.BYTES - header.getLong(0);
    }
  }
}
