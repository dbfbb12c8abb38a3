package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CheckpointWriterTest {
  private static final int FILE_BYTES = 25_000;
  private static final int PIECE_BYTES = 1026;

  @TempDir private Path temporary;
  private Path directory = Path.of("");
  private RandomModel model = RandomModel.of("8b", null, 0);

  @BeforeEach
  void describeASmallModel() throws IOException {
    Path config = temporary.resolve("small.json");
    Files.writeString(
        config,
        """
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 203,
         "hidden_size": 60, "intermediate_size": 101, "num_hidden_layers": 3,
         "num_attention_heads": 6, "num_key_value_heads": 2, "dtype": "float16",
         "layer_types": ["full_attention", "full_attention", "full_attention"]}
        """);
    directory = temporary.resolve("made/for/it");
    model = RandomModel.of(config.toString(), 2, 5);
  }

  @Test
  void whatIsWrittenIsReadBackTheSame() throws IOException {
    AtomicLong progress = new AtomicLong();
    new CheckpointWriter(3).write(directory, model, progress::addAndGet);
    assertThat(entries()).containsExactly("config.json", "model.safetensors");
    assertThat(progress).hasValue(CheckpointWriter.tensorBytes(model));
    assertSameAsModel();
  }

  @Test
  void aLargeModelIsWrittenInPiecesToSeveralFilesWithAnIndex() throws IOException {
    new CheckpointWriter(FILE_BYTES, PIECE_BYTES, 3).write(directory, model, bytes -> {});
    List<String> entries = entries();
    assertThat(entries)
        .startsWith(
            "config.json",
            String.format(Locale.ROOT, "model-00001-of-000%02d.safetensors", entries.size() - 2))
        .endsWith("model.safetensors.index.json")
        .hasSizeGreaterThan(6);
    for (String name : entries.subList(2, entries.size() - 1)) {
      assertThat(Files.size(directory.resolve(name))).isLessThan(FILE_BYTES + 3000);
    }
    assertSameAsModel();
  }

  @Test
  void theConfigurationSaysWhatWasWritten() throws IOException {
    new CheckpointWriter(1).write(directory, model, bytes -> {});
    assertThat(LlamaConfig.read(directory)).isEqualTo(model.config());
    assertThat(model.config().layers()).isEqualTo(2);
    assertThat(Files.readString(directory.resolve("config.json")))
        .contains("\"torch_dtype\":\"bfloat16\"")
        .doesNotContain("\"dtype\"", "layer_types");
  }

  @Test
  void aDirectoryThatHoldsSomethingIsLeftAsItIs() throws IOException {
    Files.createDirectories(directory);
    Files.writeString(directory.resolve("mine"), "kept");
    refused(directory, "holds something, and a model is written to an empty directory only.");
    assertThat(entries()).containsExactly("mine");
    refused(directory.resolve("mine"), "mine is no directory.");
    refused(directory.resolve("mine/below"), "cannot be written");
  }

  @Test
  void aModelThatTheDiskHasNoRoomForIsRefusedWithWhatIsMissing() {
    RandomModel large = RandomModel.of("405b", 10_000, 0);
    assertThatThrownBy(() -> new CheckpointWriter(1).write(directory, large, bytes -> {}))
        .isInstanceOf(ModelException.class)
        .hasMessageMatching(
            "The weights take [0-9.]+ GB, and .* has [0-9.]+ GB free: [0-9.]+ GB are missing\\.");
    assertThat(directory).doesNotExist();
  }

  @Test
  void whatWasWrittenIsDeletedIfTheRestCannotBe() {
    AtomicLong calls = new AtomicLong();
    assertThatThrownBy(
            () ->
                new CheckpointWriter(FILE_BYTES, PIECE_BYTES, 2)
                    .write(
                        directory,
                        model,
                        bytes -> {
                          if (calls.incrementAndGet() == 60) {
                            throw new IllegalStateException("no more");
                          }
                        }))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("no more");
    assertThat(directory).isEmptyDirectory();
  }

  private void assertSameAsModel() {
    LlamaConfig config = model.config();
    try (TensorSource made = model.tensors(bytes -> {});
        TensorSource read = Checkpoint.open(directory)) {
      LlamaTensors.check(read, config);
      for (RankTensor tensor : RankTensors.of(config, Shard.of(config, 1, 2)).inLoadingOrder()) {
        ByteBuffer expected = ByteBuffer.allocate((int) tensor.bytes(FloatFormat.BF16));
        ByteBuffer actual = ByteBuffer.allocate(expected.capacity());
        tensor.read(made, FloatFormat.BF16, 0, expected);
        tensor.read(read, FloatFormat.BF16, 0, actual);
        assertThat(actual.flip()).as(tensor.name()).isEqualTo(expected.flip());
      }
    }
  }

  private List<String> entries() throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.map(entry -> entry.getFileName().toString()).sorted().toList();
    }
  }

  private void refused(Path target, String clause) {
    assertThatThrownBy(() -> new CheckpointWriter(1).write(target, model, bytes -> {}))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }
}
