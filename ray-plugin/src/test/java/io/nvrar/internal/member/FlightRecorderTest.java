package io.nvrar.internal.member;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.standalone.Members;
import java.nio.file.Path;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What a failure says of its flight record. */
@Tag("contract")
class FlightRecorderTest {
  private static final Pattern FILE = Pattern.compile("; flight record: (.+)$");

  @Test
  void aFailureNamesNoFileThatIsNotThere() {
    for (int i = 0; i < 5; i++) {
      try (Members members = Members.join("mention", 2, Members.config().build())) {
        CollectiveGroup group = members.rank(0);
        group.abort("enough");
        // At once, before anything can be written.
        CollectiveException failure = Objects.requireNonNull(group.failure());
        assertThat(failure).hasMessageContaining("enough");
        Matcher file = FILE.matcher(failure.getMessage());
        if (file.find()) {
          assertThat(Path.of(file.group(1))).exists();
        }
      }
    }
  }

  @Test
  void anExceptionWaitsForTheFileAndNamesIt() {
    try (Members members = Members.join("mention", 2, Members.config().build())) {
      members.rank(0).abort("enough");
      Throwable thrown = catchThrowable(() -> members.rank(1).barrier());
      Matcher file = FILE.matcher(String.valueOf(thrown.getMessage()));
      assertThat(file.find()).as(thrown.getMessage()).isTrue();
      assertThat(Path.of(file.group(1))).exists();
    }
  }
}
