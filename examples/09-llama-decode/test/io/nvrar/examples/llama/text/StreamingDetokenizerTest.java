package io.nvrar.examples.llama.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

final class StreamingDetokenizerTest {
  private static final int[] NO_PROMPT = {};

  @Test
  void aCharacterOfSeveralTokensIsShownWholeAndOnlyThen() {
    List<String> pieces = stream("a€😀é", NO_PROMPT);
    assertThat(pieces).containsExactly("a", "", "", "€", "", "", "", "😀", "", "é", "");
  }

  @Test
  void piecesTogetherAreTheText() {
    String text = "Ελληνικά, 中文, a family 👨‍👩‍👧 and plain words.";
    assertThat(String.join("", stream(text, NO_PROMPT))).isEqualTo(text);
  }

  @Test
  void halfACharacterAtTheEndIsShownAsReplacementByFinish() {
    StreamingDetokenizer detokenizer = bytewise(NO_PROMPT);
    assertThat(detokenizer.add(0xe2)).isEmpty();
    assertThat(detokenizer.add(0x82)).isEmpty();
    assertThat(detokenizer.finish()).isEqualTo("\ufffd");
    assertThat(detokenizer.finish()).isEmpty();
  }

  @Test
  void bytesThatAreNoCharacterDoNotHoldTheTextBackForever() {
    StreamingDetokenizer detokenizer = bytewise(NO_PROMPT);
    StringBuilder shown = new StringBuilder();
    for (int i = 0; i < 20; i++) {
      shown.append(detokenizer.add(0xff));
    }
    assertThat(shown).isNotEmpty();
  }

  @Test
  void thePromptIsNotShownAgain() {
    StreamingDetokenizer detokenizer = bytewise(new int[] {'a', 'b', 'c', 'd', 'e', 'f'});
    assertThat(detokenizer.add('g')).isEqualTo("g");
  }

  @Test
  void aSpaceThatOnlyAnEarlierTokenKeepsIsKept() {
    // As SentencePiece does: each word brings its space, and the first space of a text is dropped.
    String[] words = {" once", " upon", " a", " time"};
    StreamingDetokenizer detokenizer =
        new StreamingDetokenizer(
            tokens -> {
              StringBuilder text = new StringBuilder();
              for (int token : tokens) {
                text.append(words[token]);
              }
              return text.substring(1);
            },
            new int[] {0});
    assertThat(detokenizer.add(1)).isEqualTo(" upon");
    assertThat(detokenizer.add(2)).isEqualTo(" a");
    assertThat(detokenizer.add(3)).isEqualTo(" time");
  }

  @Test
  void charactersOfAPromptAreWholeForATokenizerThatSpoilsARunOfHalfOnes() {
    // As the decoder ByteFallback does: a run of bytes is text, or each of them is U+FFFD.
    Function<int[], String> fallback =
        tokens -> {
          ByteBuffer bytes = ByteBuffer.allocate(tokens.length);
          for (int token : tokens) {
            bytes.put((byte) token);
          }
          try {
            return StandardCharsets.UTF_8.newDecoder().decode(bytes.flip()).toString();
          } catch (CharacterCodingException e) {
            return "\ufffd".repeat(tokens.length);
          }
        };
    StreamingDetokenizer detokenizer = new StreamingDetokenizer(fallback, ints("😁😁"));
    StringBuilder shown = new StringBuilder();
    for (int token : ints("😀😁€")) {
      shown.append(detokenizer.add(token));
    }
    assertThat(shown.append(detokenizer.finish())).hasToString("😀😁€");
    // What was shown stays shown, and each byte that is no character is one U+FFFD.
    StringBuilder broken = new StringBuilder();
    for (int token : new int[] {0xf0, 0x9f}) {
      broken.append(detokenizer.add(token));
    }
    assertThat(broken.append(detokenizer.finish())).hasToString("\ufffd\ufffd");
  }

  @Test
  void aSpaceIsKeptBehindTokensWithoutText() {
    // Token 9 is a special one, which has no text; the first space of a text is dropped.
    String[] words = {" hello", " a", " b", " c"};
    StreamingDetokenizer detokenizer =
        new StreamingDetokenizer(
            tokens -> {
              StringBuilder text = new StringBuilder();
              for (int token : tokens) {
                text.append(token == 9 ? "" : words[token]);
              }
              return text.isEmpty() ? "" : text.substring(1);
            },
            new int[] {0});
    StringBuilder shown = new StringBuilder();
    for (int token : new int[] {9, 1, 9, 9, 2, 9, 3}) {
      shown.append(detokenizer.add(token));
    }
    assertThat(shown).hasToString(" a b c");
  }

  private static int[] ints(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    int[] tokens = new int[bytes.length];
    for (int i = 0; i < bytes.length; i++) {
      tokens[i] = bytes[i] & 0xff;
    }
    return tokens;
  }

  private static List<String> stream(String text, int[] prompt) {
    StreamingDetokenizer detokenizer = bytewise(prompt);
    List<String> pieces = new ArrayList<>();
    for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
      pieces.add(detokenizer.add(b & 0xff));
    }
    pieces.add(detokenizer.finish());
    return pieces;
  }

  private static StreamingDetokenizer bytewise(int[] prompt) {
    return new StreamingDetokenizer(
        tokens -> {
          byte[] bytes = new byte[tokens.length];
          for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) tokens[i];
          }
          return new String(bytes, StandardCharsets.UTF_8);
        },
        prompt);
  }
}
