package io.nvrar.examples.llama.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.examples.llama.weights.ModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class LlamaTokenizerTest {
  private static final Path MODEL = Path.of("model/tiny-english");

  @Test
  void textsBecomeTheTokensOfHuggingFaceAndTextsAgain() throws IOException {
    JsonObject file =
        JsonParser.parseString(Files.readString(MODEL.resolve("tokenizer_cases.json")))
            .getAsJsonObject();
    assertThat(file.getAsJsonArray("cases")).isNotEmpty();
    try (LlamaTokenizer tokenizer = LlamaTokenizer.read(MODEL)) {
      for (JsonElement element : file.getAsJsonArray("cases")) {
        JsonObject expected = element.getAsJsonObject();
        String text = expected.get("text").getAsString();
        int[] ids = ints(expected.getAsJsonArray("ids"));
        assertThat(tokenizer.encode(text, false)).as(text).containsExactly(ids);
        assertThat(tokenizer.encode(text))
            .as(text)
            .containsExactly(ints(expected.getAsJsonArray("ids_with_special_tokens")));
        assertThat(tokenizer.decode(ids, false)).isEqualTo(expected.get("decoded").getAsString());
      }
    }
  }

  @Test
  void streamedTokensGiveTheWholeText() throws IOException {
    try (LlamaTokenizer tokenizer = LlamaTokenizer.read(MODEL)) {
      String text = "Ελληνικά, 中文 and emoji 😀, a family 👨‍👩‍👧.";
      StreamingDetokenizer stream =
          new StreamingDetokenizer(tokenizer::decode, tokenizer.encode("It is said:"));
      StringBuilder shown = new StringBuilder();
      for (int token : tokenizer.encode(text, false)) {
        String piece = stream.add(token);
        assertThat(piece).doesNotContain("\ufffd");
        shown.append(piece);
      }
      assertThat(shown.append(stream.finish())).hasToString(text);
    }
  }

  @Test
  void aMissingTokenizerIsNamedWithTheWayAroundIt(@TempDir Path directory) {
    assertThatThrownBy(() -> LlamaTokenizer.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("There is no " + directory.resolve("tokenizer.json"))
        .hasMessageContaining("--prompt-ids");
  }

  @Test
  void aBrokenTokenizerIsNamed(@TempDir Path directory) throws IOException {
    Files.writeString(directory.resolve("tokenizer.json"), "{}");
    assertThatThrownBy(() -> LlamaTokenizer.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("tokenizer.json cannot be read");
  }

  private static int[] ints(JsonArray array) {
    return IntStream.range(0, array.size()).map(i -> array.get(i).getAsInt()).toArray();
  }
}
