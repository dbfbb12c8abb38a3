package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ModelFamilyTest {
  // Configurations as they were published. Surefire runs the tests in the module's directory.
  private static final Path PUBLISHED = Path.of("test-models", "configs");

  private static final RopeScaling LLAMA3_2 = new RopeScaling.Llama3(500000, 32, 1, 4, 8192);

  @TempDir private Path directory;

  @Test
  void aPublishedLlamaIsRead() {
    assertThat(published("Llama-2-7b-hf"))
        .isEqualTo(
            new LlamaConfig(
                32000,
                4096,
                11008,
                32,
                32,
                32,
                128,
                4096,
                1e-5f,
                new RopeScaling.Unscaled(10000),
                false,
                false,
                false,
                false,
                List.of(2)));
    LlamaConfig small = published("Llama-3.2-1B");
    assertThat(small.headSize()).isEqualTo(64);
    assertThat(small.rope()).isEqualTo(LLAMA3_2);
    assertThat(small.tiedEmbeddings()).isTrue();
    assertThat(small.endTokens()).containsExactly(128001);
  }

  @Test
  void aPublishedMistralIsReadUnlessAttentionForgets() {
    LlamaConfig config = published("Mistral-7B-v0.3");
    assertThat(config.keyValueHeads()).isEqualTo(8);
    assertThat(config.rope()).isEqualTo(new RopeScaling.Unscaled(1e6));
    assertThat(config.queryKeyValueBias()).isFalse();
    assertThatThrownBy(() -> published("Mistral-7B-v0.1"))
        .isInstanceOf(ModelException.class)
        .hasMessageEndingWith(
            "config.json lets attention look back 4096 of 32768 positions, and this decoder knows"
                + " no such window.");
  }

  @Test
  void aPublishedQwen2IsReadWithTheBiasesThatItsConfigurationDoesNotMention() {
    for (String name : List.of("Qwen2.5-0.5B", "Qwen2.5-7B-Instruct")) {
      LlamaConfig config = published(name);
      assertThat(config.queryKeyValueBias()).isTrue();
      assertThat(config.attentionOutputBias()).isFalse();
      assertThat(config.mlpBias()).isFalse();
      assertThat(config.headSize()).isEqualTo(name.endsWith("0.5B") ? 64 : 128);
      assertThat(config.tiedEmbeddings()).isEqualTo(name.endsWith("0.5B"));
      assertThat(LlamaTensors.shapes(config).keySet())
          .contains(
              "model.layers.1.self_attn.q_proj.bias",
              "model.layers.1.self_attn.k_proj.bias",
              "model.layers.1.self_attn.v_proj.bias")
          .doesNotContain(
              "model.layers.1.self_attn.o_proj.bias", "model.layers.1.mlp.down_proj.bias");
    }
  }

  @Test
  void aWindowThatSomeLayerHasIsRefused() throws IOException {
    String mistral = "'architectures': ['MistralForCausalLM'], 'model_type': 'mistral'";
    assertThat(read(mistral + ", 'max_position_embeddings': 4096")).isNotNull();
    // Absent, it is what transformers takes.
    refused(mistral + ", 'max_position_embeddings': 4097", "look back 4096 of 4097 positions");
    assertThat(read(mistral + ", 'sliding_window': null")).isNotNull();
    String qwen2 =
        "'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2', 'sliding_window': 32,"
            + " 'use_sliding_window': ";
    assertThat(read(qwen2 + "false")).isNotNull();
    assertThat(read(qwen2 + "true, 'max_window_layers': 2")).isNotNull();
    refused(qwen2 + "true, 'max_window_layers': 1", "look back 32 of 32768 positions");
  }

  @Test
  void theTypesOfQwen2sLayersSayWhichHaveTheWindow() throws IOException {
    String qwen2 =
        "'model_type': 'qwen2', 'sliding_window': 32, 'max_window_layers': 0,"
            + " 'use_sliding_window': true, 'layer_types': ";
    assertThat(read(qwen2 + "['full_attention', 'full_attention']")).isNotNull();
    refused(qwen2 + "['full_attention', 'sliding_attention']", "look back 32 of 32768 positions");
    refused(qwen2 + "['full_attention']", "names 1 layer_types, and has 2 layers");
    refused(qwen2 + "['full_attention', 'linear_attention']", "of the type linear_attention");
    refused(
        "'model_type': 'qwen2', 'layer_types': ['full_attention', 'sliding_attention']",
        "has layers of sliding_attention, and no sliding window in use");
  }

  @Test
  void whatAConfigurationLeavesOutIsTheFamilys() throws IOException {
    assertThat(read("'model_type': 'llama'").maxPositions()).isEqualTo(2048);
    assertThat(read("'model_type': 'qwen2'").maxPositions()).isEqualTo(32768);
    assertThat(read("'model_type': 'mistral', 'sliding_window': null").maxPositions())
        .isEqualTo(131072);
    String heads =
        "{'vocab_size': 100, 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2,"
            + " 'num_attention_heads': 32, 'max_position_embeddings': 64, 'model_type': '%s'}";
    for (Map.Entry<String, Integer> family :
        Map.of("llama", 32, "mistral", 8, "qwen2", 32).entrySet()) {
      Files.writeString(
          directory.resolve("config.json"), heads.formatted(family.getKey()).replace('\'', '"'));
      assertThat(LlamaConfig.read(directory).keyValueHeads())
          .as(family.getKey())
          .isEqualTo(family.getValue());
    }
  }

  @Test
  void anOwnNameOfAKnownTypeIsThatType() throws IOException {
    assertThat(
            read("'architectures': ['OurOwnForCausalLM'], 'model_type': 'qwen2'")
                .queryKeyValueBias())
        .isTrue();
  }

  @Test
  void whatIsNoneOfTheFamiliesIsNamed() {
    for (String other : List.of("Qwen3", "Mixtral", "Gemma2", "Phi3", "GPT2LMHead")) {
      String architecture = other + "ForCausalLM";
      refused(
          String.format(
              Locale.ROOT, "'architectures': ['%s'], 'model_type': '%s'", architecture, "other"),
          String.format(
              Locale.ROOT,
              "config.json describes %s (other), and this decoder reads LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM.",
              architecture));
      refused(String.format(Locale.ROOT, "'architectures': ['%s']", architecture), architecture);
    }
    refused("'model_type': 'mixtral'", "describes a model (mixtral)");
    refused(
        "'architectures': ['LlamaForSequenceClassification'], 'model_type': 'llama'",
        "LlamaForSequenceClassification (llama)");
    refused("'architectures': ['LlamaForCausalLM'], 'model_type': 'qwen2'", "(qwen2)");
  }

  @Test
  void anArchitectureWithoutATypeIsEnoughAndTheOtherWayRound() throws IOException {
    assertThat(read("'architectures': ['Qwen2ForCausalLM']").queryKeyValueBias()).isTrue();
    assertThat(read("'model_type': 'qwen2'").queryKeyValueBias()).isTrue();
  }

  private static LlamaConfig published(String name) {
    return LlamaConfig.read(PUBLISHED.resolve(name));
  }

  private LlamaConfig read(String more) throws IOException {
    String json =
        "{'vocab_size': 100, 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2,"
            + " 'num_attention_heads': 8, 'num_key_value_heads': 8, "
            + more
            + "}";
    Files.writeString(directory.resolve("config.json"), json.replace('\'', '"'));
    return LlamaConfig.read(directory);
  }

  private void refused(String more, String clause) {
    assertThatThrownBy(() -> read(more))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }
}
