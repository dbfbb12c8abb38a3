package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ModelSourceTest {
  private static final Path MODEL = Path.of("test-models", "gqa8");

  @Test
  void aDirectoryIsTheSameModelWhereItIsCarriedTo() throws Exception {
    ModelSource carried = carried(ModelSource.of(MODEL));
    assertThat(carried.config()).isEqualTo(LlamaConfig.read(MODEL));
    assertThat(carried.directory()).isEqualTo(MODEL);
    assertThat(carried).hasToString(MODEL.toString());
    try (TensorSource tensors = carried.open(bytes -> {})) {
      LlamaTensors.check(tensors, carried.config());
    }
  }

  @Test
  void randomWeightsAreTheSameModelWhereTheyAreCarriedTo() throws Exception {
    RandomModel model = RandomModel.of("8b", 1, 3);
    ModelSource carried = carried(ModelSource.of(model));
    assertThat(carried.config()).isEqualTo(model.config());
    assertThat(carried.directory()).isNull();
    assertThat(carried).hasToString("random weights of 8b, layers: 1");
    RankTensor norm = RankTensors.of(model.config(), Shard.of(model.config(), 0, 1)).finalNorm();
    try (TensorSource tensors = carried.open(bytes -> {});
        TensorSource expected = model.tensors(bytes -> {})) {
      assertThat(bytes(norm, tensors)).isEqualTo(bytes(norm, expected));
    }
  }

  @Test
  void aHeadInTheFilesIsTheModelsWhateverItsConfigurationTies(@TempDir Path directory)
      throws Exception {
    Files.copy(MODEL.resolve("config.json"), directory.resolve("config.json"));
    assertThat(LlamaConfig.read(directory).tiedEmbeddings()).isTrue();
    byte[] header =
        "{\"lm_head.weight\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}}"
            .getBytes(StandardCharsets.UTF_8);
    ByteBuffer file = ByteBuffer.allocate(8 + header.length).order(ByteOrder.LITTLE_ENDIAN);
    Files.write(
        directory.resolve("model.safetensors"), file.putLong(header.length).put(header).array());
    assertThat(ModelSource.of(directory).config()).isEqualTo(LlamaConfig.read(directory).untied());
  }

  private static ByteBuffer bytes(RankTensor tensor, TensorSource source) {
    ByteBuffer bytes = ByteBuffer.allocate((int) tensor.bytes(FloatFormat.BF16));
    tensor.read(source, FloatFormat.BF16, 0, bytes);
    return bytes.flip();
  }

  private static ModelSource carried(ModelSource source) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(source);
    }
    try (ObjectInputStream in =
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      return (ModelSource) in.readObject();
    }
  }
}
