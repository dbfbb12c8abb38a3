package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class LibraryVersionTest {
  /** Members of two processes compare it, so it may not depend on what a process has loaded. */
  @Test
  void isThatOfTheBuild() {
    assertThat(LibraryVersion.get()).matches("\\d+\\.\\d+\\.\\d+(-SNAPSHOT)?");
  }

  @Test
  void isUnknownWhereNoBuildHasFilledItIn() {
    assertThat(LibraryVersion.read("no-such-resource")).isEqualTo(LibraryVersion.UNKNOWN);
    assertThat(LibraryVersion.read("not-filled-in")).isEqualTo(LibraryVersion.UNKNOWN);
  }
}
