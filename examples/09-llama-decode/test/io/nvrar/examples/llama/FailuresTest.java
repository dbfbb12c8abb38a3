package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

final class FailuresTest {

  @Test
  void anErrorThatRaysJavaDoesNotKnowIsASentence() {
    assertThat(Failures.ofRay(new IllegalArgumentException("Unrecognized metadata [50, 50]")))
        .hasMessageContaining("the memory of its node was nearly used up");
    assertThat(Failures.ofRay(new IllegalArgumentException("Unrecognized metadata [50, 51]")))
        .hasMessage("A rank has ended by Ray's error 23, for which Ray's Java has no exception.");
    assertThat(Failures.ofRay(new IllegalStateException("something else"))).isNull();
    assertThat(Failures.ofRay(new IllegalStateException())).isNull();
  }
}
