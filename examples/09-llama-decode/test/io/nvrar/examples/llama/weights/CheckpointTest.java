package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CheckpointTest {
  @TempDir private Path directory;

  @Test
  void rowsAndColumnsArriveTransposedAndInPlace() throws IOException {
    float[] numbers = new float[40 * 3];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = i;
    }
    write("{'w': {'dtype': 'F32', 'shape': [40, 3], 'data_offsets': [0, 480]}}", floats(numbers));
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      TensorPart head = TensorPart.rows("w", new Range(17, 20), 3);
      TensorPart tail = TensorPart.rows("w", new Range(2, 5), 3);
      float[][] rows = new float[3][25];
      reader(checkpoint).transposed(RankTensor.matrix("both", tail, head), rows);
      assertThat(rows[2][5]).isEqualTo(17 * 3 + 2);
      assertThat(rows[0][24]).isEqualTo(36 * 3);
      assertThat(rows[0][4]).isEqualTo(6 * 3);
      TensorPart pieces = TensorPart.columns("w", 40, new Range(1, 2), 3);
      float[][] columns = new float[2][40];
      reader(checkpoint).transposed(RankTensor.matrix("pieces", pieces), columns);
      assertThat(columns[0][0]).isEqualTo(1);
      assertThat(columns[1][39]).isEqualTo(39 * 3 + 2);
    }
  }

  @Test
  void sixteenBitFormatsAreWidenedExactly() throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(20).order(ByteOrder.LITTLE_ENDIAN);
    // float16: 1, -2, the smallest subnormal, 65504, -infinity.
    for (int half : new int[] {0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00}) {
      bytes.putShort((short) half);
    }
    // bfloat16: 1, -2, 3.140625, 0, infinity.
    for (int half : new int[] {0x3f80, 0xc000, 0x4049, 0x0000, 0x7f80}) {
      bytes.putShort((short) half);
    }
    write(
        "{'h': {'dtype': 'F16', 'shape': [5], 'data_offsets': [0, 10]},"
            + " 'b': {'dtype': 'BF16', 'shape': [5], 'data_offsets': [10, 20]}}",
        bytes.array());
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      float[] numbers =
          reader(checkpoint)
              .vector(
                  RankTensor.vector(
                      "both",
                      RankTensor.Kind.BIAS,
                      TensorPart.vector("h", Range.of(5), 5),
                      TensorPart.vector("b", Range.of(5), 5)));
      assertThat(numbers)
          .containsExactly(
              1f,
              -2f,
              0x1p-24f,
              65504f,
              Float.NEGATIVE_INFINITY,
              1f,
              -2f,
              3.140625f,
              0f,
              Float.POSITIVE_INFINITY);
    }
  }

  @Test
  void missingFilesAreNamed() throws IOException {
    refused("holds neither model.safetensors nor model.safetensors.index.json");
    Files.writeString(
        directory.resolve("model.safetensors.index.json"),
        "{\"weight_map\": {\"w\": \"model-00001-of-00002.safetensors\"}}");
    refused("There is no " + directory.resolve("model-00001-of-00002.safetensors") + ".");
  }

  @Test
  void theWholeFileWinsOverAnIndexBesideIt() throws IOException {
    write("{'w': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}", floats(new float[] {5}));
    Files.writeString(
        directory.resolve("model.safetensors.index.json"),
        "{\"weight_map\": {\"w\": \"model-00001-of-00002.safetensors\"}}");
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      checkpoint.require("w", List.of(1L));
      assertThat(checkpoint.has("w")).isTrue();
      assertThat(checkpoint.has("v")).isFalse();
    }
  }

  @Test
  void aTensorInTwoFilesIsRefusedWithBoth() throws IOException {
    write("{'w': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}", new byte[4]);
    Path first = directory.resolve("a.safetensors");
    Path second = directory.resolve("b.safetensors");
    Files.move(file(), first);
    Files.copy(first, second);
    Files.writeString(
        directory.resolve("model.safetensors.index.json"),
        "{\"weight_map\": {\"w\": \"a.safetensors\", \"v\": \"b.safetensors\"}}");
    refused(String.format(Locale.ROOT, "%s and %s both hold a tensor w.", first, second));
  }

  @Test
  void aPickledModelAndAPointerAreCalledWhatTheyAre() throws IOException {
    Files.write(directory.resolve("pytorch_model.bin"), new byte[8]);
    refused("It holds pytorch_model.bin, and this decoder reads safetensors files only.");
    Files.writeString(file(), "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    refused(file() + " is no safetensors file but a pointer of Git LFS to one");
    Files.copy(file(), directory.resolve("config.json"));
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("config.json is no JSON file but a pointer of Git LFS");
  }

  @Test
  void aFileThatIsTruncatedWhileItIsReadIsCalledSo() throws IOException {
    int count = 1 << 20;
    write(
        "{'w': {'dtype': 'F32', 'shape': [1048576], 'data_offsets': [0, 4194304]}}",
        new byte[count * Float.BYTES]);
    TensorPart whole = TensorPart.vector("w", Range.of(count), count);
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      ByteBuffer target = ByteBuffer.allocateDirect(count * Float.BYTES);
      checkpoint.copy(whole, 0, target.duplicate());
      try (FileChannel file = FileChannel.open(file(), StandardOpenOption.WRITE)) {
        file.truncate(8192);
      }
      for (ByteBuffer buffer : List.of(target, ByteBuffer.allocate(count * Float.BYTES))) {
        assertThatThrownBy(() -> checkpoint.copy(whole, 0, buffer.duplicate()))
            .isInstanceOf(ModelException.class)
            .hasMessage(
                file() + " is truncated: byte 8192 was to be read, and the file has 8192 bytes.");
      }
    }
  }

  @Test
  void anIndexCannotLeadOutOfTheDirectory() throws IOException {
    Files.writeString(
        directory.resolve("model.safetensors.index.json"),
        "{\"weight_map\": {\"w\": \"../elsewhere.safetensors\"}}");
    refused("names ../elsewhere.safetensors, which is no file beside it");
  }

  @Test
  void aTruncatedFileIsCalledSoWhereverItEnds() throws IOException {
    write("{'w': {'dtype': 'F32', 'shape': [4], 'data_offsets': [0, 16]}}", new byte[16]);
    byte[] whole = Files.readAllBytes(file());
    for (int length : new int[] {0, 7, 20, whole.length - 16, whole.length - 1}) {
      Files.write(file(), Arrays.copyOf(whole, length));
      refused("is truncated");
    }
  }

  @Test
  void aFileThatIsNoSafetensorsIsRefusedWithoutReadingItAll() throws IOException {
    Files.write(
        file(), "version https://git-lfs.github.com/spec/v1".getBytes(StandardCharsets.UTF_8));
    refused("is no safetensors file");
    Files.write(file(), new byte[64]);
    refused("is no safetensors file");
    write("no json", new byte[0]);
    refused("is not JSON");
  }

  @Test
  void malformedEntriesAreRefused() throws IOException {
    write("{'w': {'dtype': 'F32', 'shape': [4]}}", new byte[16]);
    refused("malformed entry w");
    write("{'w': {'dtype': 'F32', 'shape': [4], 'data_offsets': [8, 4]}}", new byte[16]);
    refused("malformed entry w");
    write("{'w': {'dtype': 'F32', 'shape': [5], 'data_offsets': [0, 16]}}", new byte[16]);
    refused("w has 16 bytes, and its shape [5] of F32 takes 20");
    write(
        "{'w': {'dtype': 'F32', 'shape': [9223372036854775807, 4], 'data_offsets': [0, 16]}}",
        new byte[16]);
    refused("w has 16 bytes");
    write(
        "{'w': {'dtype': 'F32', 'shape': [4], 'data_offsets': [0, 9223372036854775807]}}",
        new byte[16]);
    refused("is truncated");
    write(
        "{'v': {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]},"
            + " 'w': {'dtype': 'F32', 'shape': [2], 'data_offsets': [4, 12]}}",
        new byte[16]);
    refused("the bytes of v and w overlap");
  }

  @Test
  void whatIsDeepOrLongIsRefusedInAShortSentence() throws IOException {
    int deep = 10_000_000;
    String name = "n".repeat(1_000_000);
    for (String header :
        List.of(
            "[".repeat(deep) + "]".repeat(deep),
            "{'w': ".repeat(deep / 4),
            "{'w': {'dtype': 'F32', 'shape': " + "[".repeat(deep) + "]".repeat(deep) + "}}",
            "{'" + name + "': {}}",
            "{'" + name + "': 1}",
            "{'" + name + "': {'dtype': 'F32', 'shape': [5], 'data_offsets': [0, 16]}}",
            "{'" + name + "': {'dtype': 'F32', 'shape': [5], 'data_offsets': [0, 99]}}",
            "{'w': {'dtype': 'F32', 'shape': ["
                + "9, ".repeat(100_000)
                + "9], 'data_offsets': [0, 16]}}")) {
      write(header, new byte[16]);
      assertThatThrownBy(() -> Checkpoint.open(directory))
          .isInstanceOf(ModelException.class)
          .message()
          .hasSizeLessThan(500 + directory.toString().length());
    }
  }

  @Test
  void aTensorOfAnotherShapeIsRefusedWithBothShapes() throws IOException {
    write("{'w': {'dtype': 'F32', 'shape': [4], 'data_offsets': [0, 16]}}", new byte[16]);
    required("w", List.of(2L, 2L), "w has the shape [4], and config.json asks for [2, 2].");
  }

  @Test
  void aTensorOfAnUnknownDtypeIsRefusedOnlyWhereItIsWanted() throws IOException {
    write(
        "{'w': {'dtype': 'F8_E4M3', 'shape': [4], 'data_offsets': [0, 4]},"
            + " 'v': {'dtype': 'F32', 'shape': [1], 'data_offsets': [4, 8]}}",
        new byte[8]);
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      checkpoint.require("v", List.of(1L));
    }
    required("w", List.of(4L), "w has the unknown dtype F8_E4M3");
  }

  @Test
  void aMissingTensorIsNamed() throws IOException {
    write("{'__metadata__': {'format': 'pt'}}", new byte[0]);
    required("lm_head.weight", List.of(1L), "lack lm_head.weight");
  }

  private static FloatReader reader(TensorSource source) {
    return new FloatReader(source);
  }

  private Path file() {
    return directory.resolve("model.safetensors");
  }

  private void write(String header, byte[] data) throws IOException {
    byte[] json = header.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
    ByteBuffer bytes =
        ByteBuffer.allocate(Long.BYTES + json.length + data.length).order(ByteOrder.LITTLE_ENDIAN);
    Files.write(file(), bytes.putLong(json.length).put(json).put(data).array());
  }

  private static byte[] floats(float[] numbers) {
    ByteBuffer bytes = ByteBuffer.allocate(numbers.length * Float.BYTES);
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(numbers);
    return bytes.array();
  }

  private void refused(String clause) {
    assertThatThrownBy(() -> Checkpoint.open(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }

  private void required(String name, List<Long> shape, String clause) {
    try (Checkpoint checkpoint = Checkpoint.open(directory)) {
      assertThatThrownBy(() -> checkpoint.require(name, shape))
          .isInstanceOf(ModelException.class)
          .hasMessageContaining(clause);
    }
  }
}
