package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class LlamaWeightsTest {

  // Surefire runs the tests in the module's directory. mha5 has a bias everywhere.
  @ParameterizedTest
  @ValueSource(strings = {"gqa8", "llama3rope7", "mha5"})
  void aRankReadsTheBytesOfItsTensorsAndNoOthers(String name) {
    Path model = Path.of("test-models", name);
    LlamaConfig config = LlamaConfig.read(model);
    int worldSize = config.heads();
    AtomicLong bytes = new AtomicLong();
    try (Checkpoint checkpoint = Checkpoint.open(model, bytes::addAndGet)) {
      for (int rank = 0; rank < worldSize; rank++) {
        Shard shard = Shard.of(config, rank, worldSize);
        bytes.set(0);
        LlamaWeights.read(checkpoint, config, shard);
        assertThat(bytes).hasValue(RankTensors.of(config, shard).sourceBytes(checkpoint));
      }
    }
  }
}
