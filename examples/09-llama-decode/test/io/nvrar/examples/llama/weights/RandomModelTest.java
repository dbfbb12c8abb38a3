package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class RandomModelTest {

  @ParameterizedTest
  @CsvSource({"8b, 8030261248", "70b, 70553706496", "405B, 405853388800"})
  void aShapeHasAsManyParametersAsThePublishedModel(String label, long parameters) {
    LlamaConfig config = RandomModel.of(label, null, 0).config();
    assertThat(RankTensors.of(config, Shard.of(config, 0, 1)).count()).isEqualTo(parameters);
    assertThat(config.headSize()).isEqualTo(128);
    assertThat(config.rope()).isEqualTo(new RopeScaling.Llama3(500000, 8, 1, 4, 8192));
    assertThat(config.maxPositions()).isEqualTo(131072);
    assertThat(config.endTokens()).containsExactly(128001);
  }

  @Test
  void fewerLayersAreTheFirstOfTheSameModel() {
    assertThat(RandomModel.of("70b", 4, 0).config().layers()).isEqualTo(4);
    refused("70b", 0, "num_hidden_layers is 0, not an integer from 1");
  }

  @Test
  void whatIsNoShapeAndNoFileIsRefusedWithTheShapes() {
    refused("8b", 10_001, "has 10001 layers, and this decoder takes at most 10000.");
    refused("8b", 2_000_000, "has 2000000 layers, and this decoder takes at most");
    refused("13b", null, "There is no file 13b, and the shapes without one are 8b, 70b, 405b.");
  }

  private static void refused(String fileOrShape, @Nullable Integer layers, String clause) {
    assertThatThrownBy(() -> RandomModel.of(fileOrShape, layers, 0))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }
}
