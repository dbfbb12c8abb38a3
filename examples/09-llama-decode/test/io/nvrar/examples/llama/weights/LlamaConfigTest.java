package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class LlamaConfigTest {
  private static final String NEEDED =
      "'vocab_size': 100, 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2,"
          + " 'num_attention_heads': 8";

  @TempDir private Path directory;

  @Test
  void whatTransformersLeavesOutHasItsDefaults() throws IOException {
    LlamaConfig config = read("");
    assertThat(config.keyValueHeads()).isEqualTo(8);
    assertThat(config.headSize()).isEqualTo(8);
    assertThat(config.maxPositions()).isEqualTo(2048);
    assertThat(config.normEpsilon()).isEqualTo(1e-6f);
    assertThat(config.rope()).isEqualTo(new RopeScaling.Unscaled(10000));
    assertThat(config.tiedEmbeddings()).isFalse();
    assertThat(config.queryKeyValueBias()).isFalse();
    assertThat(config.attentionOutputBias()).isFalse();
    assertThat(config.mlpBias()).isFalse();
    assertThat(config.endTokens()).isEmpty();
  }

  @Test
  void headSizeIsTakenFromTheFileWhereItIsThere() throws IOException {
    assertThat(read("'head_dim': 16").headSize()).isEqualTo(16);
    assertThat(read("'head_dim': null").headSize()).isEqualTo(8);
  }

  @Test
  void ropeOfTransformersFourIsRead() throws IOException {
    assertThat(read("'rope_theta': 5e5, 'rope_scaling': null").rope())
        .isEqualTo(new RopeScaling.Unscaled(5e5));
    assertThat(read("'rope_scaling': {'type': 'linear', 'factor': 2}").rope())
        .isEqualTo(new RopeScaling.Linear(10000, 2));
    assertThat(
            read("'rope_theta': 500000.0, 'rope_scaling': {'rope_type': 'llama3', " + LLAMA3 + "}")
                .rope())
        .isEqualTo(new RopeScaling.Llama3(500000, 8, 1, 4, 8192));
  }

  @Test
  void ropeOfTransformersFiveIsRead() throws IOException {
    assertThat(read("'rope_parameters': {'rope_type': 'default', 'rope_theta': 7e4}").rope())
        .isEqualTo(new RopeScaling.Unscaled(7e4));
    assertThat(
            read("'rope_parameters': {'rope_type': 'llama3', 'rope_theta': 5e5, " + LLAMA3 + "}")
                .rope())
        .isEqualTo(new RopeScaling.Llama3(500000, 8, 1, 4, 8192));
  }

  @Test
  void ropeInBothSpellingsIsTheOldOneAsAWholeUnlessThatIsEmpty() throws IOException {
    String both =
        "'rope_theta': 5e5, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 7e4},"
            + " 'rope_scaling': ";
    assertThat(read(both + "{'type': 'linear', 'factor': 2}").rope())
        .isEqualTo(new RopeScaling.Linear(5e5, 2));
    assertThat(read(both + "{}").rope()).isEqualTo(new RopeScaling.Unscaled(7e4));
    assertThat(read(both + "null").rope()).isEqualTo(new RopeScaling.Unscaled(7e4));
    refused(both + "{'rope_type': 'yarn', 'factor': 2}", "rope type yarn");
  }

  @Test
  void theOriginalPositionsOfLlama3AreFoundWhereTransformersLooks() throws IOException {
    String rope =
        "'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0,"
            + " 'high_freq_factor': 4.0";
    assertThat(read("'max_position_embeddings': 512, " + rope + "}").rope())
        .isEqualTo(new RopeScaling.Llama3(10000, 8, 1, 4, 512));
    assertThat(
            read("'original_max_position_embeddings': 16, "
                    + rope
                    + ", 'original_max_position_embeddings': 32}")
                .rope())
        .isEqualTo(new RopeScaling.Llama3(10000, 8, 1, 4, 16));
  }

  @Test
  void ropeOfItsOwnForATypeOfLayersIsRefused() {
    refused(
        "'rope_parameters': {'full_attention': {'rope_type': 'default', 'rope_theta': 7e4}}",
        "rotates layers of the type full_attention by parameters of their own");
  }

  @Test
  void otherNamesOfTheSameAreRead() throws IOException {
    assertThat(read("'hidden_act': 'swish'")).isEqualTo(read(""));
    // Some models say so that there is none.
    assertThat(read("'eos_token_id': -1").endTokens()).isEmpty();
    assertThat(read("'eos_token_id': [-1, 7]").endTokens()).containsExactly(7);
    refused("'transformers_weights': 'other.safetensors'", "by transformers_weights");
  }

  @Test
  void endTokensAreANumberOrAListAndThoseOfTheGenerationConfigWin() throws IOException {
    assertThat(read("'eos_token_id': 2").endTokens()).containsExactly(2);
    assertThat(read("'eos_token_id': [2, 5]").endTokens()).containsExactly(2, 5);
    Files.writeString(directory.resolve("generation_config.json"), "{\"eos_token_id\": [7, 8]}");
    assertThat(read("'eos_token_id': 2").endTokens()).containsExactly(7, 8);
    Files.writeString(directory.resolve("generation_config.json"), "{}");
    assertThat(read("'eos_token_id': 2").endTokens()).containsExactly(2);
  }

  @Test
  void whatTheDecoderDoesNotKnowIsRefusedInASentence() {
    refused("'rope_scaling': {'rope_type': 'yarn', 'factor': 2}", "rope type yarn");
    refused("'rope_scaling': {'rope_type': 'linear'}", "lacks factor in its rope parameters");
    refused("'partial_rotary_factor': 0.5", "rotates a part of each head");
    refused("'hidden_act': 'gelu'", "activation gelu, and this decoder knows silu only");
    refused("'quantization_config': {'bits': 4}", "quantized");
    refused("'num_key_value_heads': 3", "8 attention heads, which its 3 key/value heads");
    refused("'head_dim': 7", "an even number");
  }

  @Test
  void wrongTypesNameTheKeyAndTheValue() {
    refused("'head_dim': 'wide'", "head_dim is \"wide\", not a number");
    refused("'head_dim': -4", "head_dim is -4, not an integer from 1");
    refused("'tie_word_embeddings': 'yes'", "tie_word_embeddings is \"yes\", not true or false");
    refused("'eos_token_id': [0.5]", "eos_token_id is 0.5, not an integer");
  }

  @Test
  void aMissingDirectoryFileOrKeyIsNamed() throws IOException {
    Path nowhere = directory.resolve("nowhere");
    assertThatThrownBy(() -> LlamaConfig.read(nowhere))
        .hasMessage("There is no model directory " + nowhere + ".");
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .hasMessage("There is no " + directory.resolve("config.json") + ".");
    Files.writeString(directory.resolve("config.json"), "{}");
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .hasMessageEndingWith("config.json lacks num_attention_heads.");
    Files.writeString(directory.resolve("config.json"), "{");
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("config.json is not JSON");
  }

  @Test
  void whatNestsDeeplyIsRefusedInAShortSentenceWhereverItStands() throws IOException {
    String open = "[".repeat(40_000);
    String objects = "{'a':".repeat(40_000);
    for (String config :
        List.of(
            open + "]".repeat(40_000),
            open,
            objects,
            objects + "1" + "}".repeat(40_000),
            "{'head_dim': " + open + "]".repeat(40_000) + "}",
            "{'quantization_config': " + objects + "1" + "}".repeat(40_001))) {
      Files.writeString(directory.resolve("config.json"), config.replace('\'', '"'));
      assertThatThrownBy(() -> LlamaConfig.read(directory))
          .isInstanceOf(ModelException.class)
          .hasMessageEndingWith("config.json nests lists and objects more than 64 deep.");
    }
    assertThat(read("'unknown': " + "[".repeat(60) + "]".repeat(60)).hiddenSize()).isPositive();
  }

  @Test
  void aMessageQuotesTheBeginningOfALongValueOnly() {
    for (String more :
        List.of(
            "'head_dim': '" + "x".repeat(1_000_000) + "'",
            "'hidden_act': '" + "x".repeat(1_000_000) + "'",
            "'eos_token_id': [" + "'x', ".repeat(100_000) + "0]",
            "'head_dim': [" + "{}, ".repeat(100_000) + "0]",
            "'" + "k".repeat(1_000_000) + "': x x",
            "'a': " + "x".repeat(1_000_000) + ": 1")) {
      assertThatThrownBy(() -> read(more))
          .isInstanceOf(ModelException.class)
          .message()
          .hasSizeLessThan(500 + directory.toString().length());
    }
  }

  private static final String LLAMA3 =
      "'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,"
          + " 'original_max_position_embeddings': 8192";

  private LlamaConfig read(String more) throws IOException {
    String json = "{" + NEEDED + (more.isEmpty() ? "" : ", " + more) + "}";
    Files.writeString(directory.resolve("config.json"), json.replace('\'', '"'));
    return LlamaConfig.read(directory);
  }

  private void refused(String more, String clause) {
    assertThatThrownBy(() -> read(more))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }
}
