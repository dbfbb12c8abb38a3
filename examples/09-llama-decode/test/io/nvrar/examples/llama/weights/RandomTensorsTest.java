package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;

final class RandomTensorsTest {
  // Sizes that four do not divide, so that pieces begin and end within a word of the generator.
  private static final LlamaConfig CONFIG =
      new LlamaConfig(
          203,
          75,
          101,
          1,
          6,
          3,
          10,
          64,
          1e-6f,
          new RopeScaling.Unscaled(10000),
          false,
          true,
          false,
          false,
          List.of());

  private final TensorSource tensors = new RandomTensors(CONFIG, 7, bytes -> {});

  // As random_weights.py computes them; the references of the seeded models depend on all of them.
  @Test
  void numbersAreThoseOfThePythonProgram() {
    assertThat(first("model.embed_tokens.weight"))
        .containsExactly(16056, -16880, -16783, 15868, -16701);
    assertThat(first("model.layers.0.self_attn.k_proj.bias"))
        .containsExactly(15933, -16678, 16094, -17087, -16969);
    assertThat(first("model.norm.weight")).containsExactly(16177, 16263, 16268, 16180, 16290);
    assertThat(first("model.layers.0.mlp.down_proj.weight"))
        .containsExactly(-16857, 15812, 15904, -17046, 15627);
  }

  @Test
  void everyRankHasItsPartOfTheSameModel() {
    LlamaWeights whole = LlamaWeights.read(tensors, CONFIG, Shard.of(CONFIG, 0, 1));
    for (int rank = 0; rank < 6; rank++) {
      Shard shard = Shard.of(CONFIG, rank, 6);
      LlamaWeights part = LlamaWeights.read(tensors, CONFIG, shard);
      Range wide = shard.intermediate();
      for (int row = 0; row < CONFIG.hiddenSize(); row++) {
        for (int i = 0; i < wide.count(); i++) {
          assertThat(part.layers().get(0).down().weight()[i][row])
              .isEqualTo(whole.layers().get(0).down().weight()[wide.first() + i][row]);
        }
        for (int word = 0; word < shard.vocabulary().count(); word++) {
          assertThat(part.head()[row][word])
              .isEqualTo(whole.head()[row][shard.vocabulary().first() + word]);
        }
      }
    }
  }

  @Test
  void anotherSeedLayerOrTensorHasOtherNumbers() {
    short[] numbers = first("model.layers.0.mlp.gate_proj.weight");
    assertThat(first("model.layers.0.mlp.up_proj.weight")).isNotEqualTo(numbers);
    assertThat(
            first(new RandomTensors(CONFIG, 8, bytes -> {}), "model.layers.0.mlp.gate_proj.weight"))
        .isNotEqualTo(numbers);
  }

  @Test
  void numbersHaveTheDeviationThatKeepsActivationsInRange() {
    LlamaWeights weights = LlamaWeights.read(tensors, CONFIG, Shard.of(CONFIG, 0, 1));
    double sum = 0;
    double squares = 0;
    float[][] matrix = weights.layers().get(0).gateUp().weight();
    for (float[] row : matrix) {
      for (float number : row) {
        sum += number;
        squares += number * number;
      }
    }
    double count = 75 * 202;
    assertThat(sum / count).isBetween(-0.005, 0.005);
    assertThat(Math.sqrt(squares / count)).isBetween(0.98 / Math.sqrt(75), 1.02 / Math.sqrt(75));
    for (float number : weights.finalNorm()) {
      assertThat(number).isBetween(0.6f, 1.4f);
    }
  }

  @Test
  void aTensorOfAnotherModelIsRefused() {
    assertThatThrownBy(() -> tensors.format("model.layers.1.mlp.up_proj.weight"))
        .isInstanceOf(ModelException.class)
        .hasMessageEndingWith("lacks model.layers.1.mlp.up_proj.weight.");
    assertThatThrownBy(() -> tensors.require("model.norm.weight", List.of(74L)))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("[75], not [74]");
  }

  private short[] first(String name) {
    return first(tensors, name);
  }

  private static short[] first(TensorSource tensors, String name) {
    short[] numbers = new short[5];
    ByteBuffer bytes = ByteBuffer.allocate(10);
    tensors.copy(TensorPart.vector(name, new Range(2, 5), 9), 0, bytes);
    bytes.flip().order(ByteOrder.LITTLE_ENDIAN).asShortBuffer().get(numbers);
    return numbers;
  }

  @Test
  void aBiasThatTheConfigurationLeavesOutIsRefused() {
    LlamaConfig without = RandomModel.of("8b", 1, 0).config();
    for (String projection : List.of("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj")) {
      String bias = "model.layers.0." + projection + ".bias";
      TensorSource biased =
          new TensorSource() {
            @Override
            public boolean has(String name) {
              return name.equals(bias);
            }

            @Override
            public FloatFormat format(String name) {
              return FloatFormat.BF16;
            }

            @Override
            public void require(String name, List<Long> shape) {}

            @Override
            public void copy(TensorPart part, long first, ByteBuffer target) {}

            @Override
            public void close() {}
          };
      assertThatThrownBy(() -> LlamaTensors.check(biased, without))
          .isInstanceOf(ModelException.class)
          .hasMessage("The weights have " + bias + ", and by config.json there is no such bias.");
    }
  }
}
