package io.nvrar.examples.llama.engine.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

final class ResourcesTest {
  private final List<String> closed = new ArrayList<>();
  private final Resources resources = new Resources();

  @Test
  void theLastIsFreedFirstAndFailuresKeepNoneFromIt() {
    resources.own(() -> closed.add("first"));
    own("second fails");
    own("third fails");
    resources.own(() -> closed.add("fourth"));
    assertThatThrownBy(resources::close)
        .hasMessage("third fails")
        .satisfies(
            e -> assertThat(e.getSuppressed()).singleElement().hasToString(thrown("second fails")));
    assertThat(closed).containsExactly("fourth", "third fails", "second fails", "first");
    resources.close();
    assertThat(closed).hasSize(4);
  }

  @Test
  void aFailureOfFreeingDoesNotHideWhatItFollows() {
    own("freeing fails");
    RuntimeException cause = new IllegalArgumentException("the cause");
    resources.closeAfter(cause);
    assertThat(cause).hasMessage("the cause");
    assertThat(cause.getSuppressed()).singleElement().hasToString(thrown("freeing fails"));
  }

  private void own(String failure) {
    resources.own(
        () -> {
          closed.add(failure);
          throw new IllegalStateException(failure);
        });
  }

  private static String thrown(String message) {
    return new IllegalStateException(message).toString();
  }
}
