package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.weights.ModelException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

final class DecodeOptionsTest {

  @Test
  void aReplacementCharacterThatWasTypedIsTextAndOneThatStandsForBytesIsNot() {
    String prompt = "half a \ufffd";
    byte[] typed = ("java\0--prompt\0" + prompt + "\0").getBytes(StandardCharsets.UTF_8);
    assertThat(DecodeOptions.isOnCommandLine(prompt, typed)).isTrue();
    byte[] bytes = "java\0--prompt\0half a \u00ff\0".getBytes(StandardCharsets.ISO_8859_1);
    assertThat(DecodeOptions.isOnCommandLine(prompt, bytes)).isFalse();
    refused("is not text in UTF-8", "--prompt", prompt);
  }

  @Test
  void logitsThatCannotBeWrittenAreRefusedBeforeAnythingElse(@TempDir Path directory) {
    refused("is a directory", "--logits", directory.toString());
    refused("There is no directory for", "--logits", directory.resolve("a/b").toString());
  }

  @Test
  void theLogitsOfSeveralPromptsGoToFilesOfTheirOwn(@TempDir Path directory) {
    Path file = directory.resolve("some.logits.npy");
    DecodeOptions options =
        CommandLine.populateCommand(new DecodeOptions(), "--logits", file.toString());
    assertThat(options.logits(1)).containsExactly(file);
    assertThat(options.logits(2))
        .containsExactly(
            directory.resolve("some.logits-1.npy"), directory.resolve("some.logits-2.npy"));
    assertThat(new DecodeOptions().logits(2)).isEmpty();
  }

  private static void refused(String clause, String... arguments) {
    DecodeOptions options = CommandLine.populateCommand(new DecodeOptions(), arguments);
    assertThatThrownBy(options::check)
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }
}
