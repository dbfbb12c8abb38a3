package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.junit.jupiter.api.Test;

final class StreamedOutputTest {
  private final StringWriter shown = new StringWriter();

  @Test
  void outputsThatGrowAtOnceAreNotMixed() {
    StreamedOutput output = new StreamedOutput(new PrintWriter(shown), List.of("A:", "B:", "C:"));
    assertThat(shown).hasToString("");
    output.add(0, " one");
    output.add(1, " uno");
    assertThat(shown).hasToString("A: one");
    output.finish(2);
    output.add(0, " two");
    output.finish(0);
    assertThat(shown.toString().lines()).containsExactly("A: one two", "B: uno");
    output.add(1, " due");
    output.finish(1);
    assertThat(shown.toString().lines()).containsExactly("A: one two", "B: uno due", "C:");
  }

  @Test
  void aMessageAfterTextThatBrokeOffBeginsALine() {
    StreamedOutput output = new StreamedOutput(new PrintWriter(shown), List.of("A:", "B:"));
    output.breakOff();
    assertThat(shown).hasToString("");
    output.add(0, " one");
    output.breakOff();
    assertThat(shown).hasToString("A: one" + System.lineSeparator());
    output.finish(0);
    output.finish(1);
    int length = shown.toString().length();
    output.breakOff();
    assertThat(shown.toString()).hasSize(length);
  }
}
