package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.tuning.TuningCache;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A machine's language with digits of its own must not change what other machines read. */
class LanguageTest {
  private final Locale before = Locale.getDefault();

  @BeforeEach
  void speakPersian() {
    Locale.setDefault(Locale.forLanguageTag("fa-IR"));
    assertThat(String.format(Locale.getDefault(), "%d", 1))
        .as("this JVM has the language's digits")
        .isNotEqualTo("1");
  }

  @AfterEach
  void speakAsBefore() {
    Locale.setDefault(before);
  }

  @Test
  void aTuningTableHasTheSameNameEverywhere() {
    assertThat(TuningCache.fileName(4, DataType.BFLOAT16)).isEqualTo("tuning_4gpu_bfloat16.json");
  }

  @Test
  void aConfigurationHasTheSameTextEverywhere() {
    String text = GroupConfig.defaults().toString();
    assertThat(StandardCharsets.US_ASCII.newEncoder().canEncode(text)).as(text).isTrue();
  }
}
