package io.nvrar.examples.training;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class TextTest {
  private static final int CONTEXT = 4;

  /** 1000 characters: each block has ten of the same digit, the last one of its number. */
  private static byte[] blocks() {
    StringBuilder text = new StringBuilder();
    for (int block = 0; block < 100; block++) {
      text.append(Integer.toString(block % 10).repeat(10));
    }
    return text.toString().getBytes(UTF_8);
  }

  @Test
  void everyTenthBlockIsHeldOutAndNoOtherIs() {
    Text text = Text.of(blocks(), "digits", CONTEXT);
    short nine = text.encode("9")[0];
    assertThat(text.trainingSize()).isEqualTo(900);
    assertThat(text.heldOut())
        .hasSize(10)
        .allSatisfy(block -> assertThat(block).hasSize(10).containsOnly(nine));
    for (int step = 1; step <= 500; step++) {
      for (short[] sequence : text.draw(1, step, 4, CONTEXT)) {
        assertThat(sequence).hasSize(CONTEXT + 1).doesNotContain(nine);
      }
    }
  }

  @Test
  void whatAStepDrawsFollowsFromTheSeedAndTheStep() {
    Text text = Text.of(blocks(), "digits", CONTEXT);
    assertThat(text.draw(7, 3, 8, CONTEXT)).isDeepEqualTo(text.draw(7, 3, 8, CONTEXT));
    assertThat(text.draw(7, 3, 8, CONTEXT)).isNotEqualTo(text.draw(7, 4, 8, CONTEXT));
    assertThat(text.draw(7, 3, 8, CONTEXT)).isNotEqualTo(text.draw(8, 3, 8, CONTEXT));
  }

  @Test
  void charactersAreNumberedInTheirOrder() {
    Text text = Text.of("añz€".repeat(200).getBytes(UTF_8), "letters", CONTEXT);
    assertThat(text.vocabularySize()).isEqualTo(4);
    assertThat(text.encode("azñ€")).containsExactly(0, 1, 2, 3);
    assertThat(text.character(3)).isEqualTo('€');
    assertThatThrownBy(() -> text.encode("ab"))
        .isInstanceOf(TrainingException.class)
        .hasMessage("'ab' has the character 'b', which does not occur in the text");
  }

  @Test
  void whatIsNoTextIsRefused() {
    assertThatThrownBy(() -> Text.of(new byte[0], "x.txt", CONTEXT))
        .isInstanceOf(TrainingException.class)
        .hasMessage("the text x.txt is empty");
    assertThatThrownBy(() -> Text.of(new byte[499], "x.txt", CONTEXT))
        .isInstanceOf(TrainingException.class)
        .hasMessage("the text x.txt has 499 characters, and a context of 4 needs 500");
    assertThatThrownBy(() -> Text.of(new byte[] {(byte) 0xFF}, "x.txt", CONTEXT))
        .isInstanceOf(TrainingException.class)
        .hasMessageStartingWith("the text x.txt is not in UTF-8: ");
    assertThatThrownBy(() -> Text.of(new byte[500], "x.txt", CONTEXT))
        .isInstanceOf(TrainingException.class)
        .hasMessage("the text x.txt has 1 different characters, must have 2 to 32767");
  }
}
