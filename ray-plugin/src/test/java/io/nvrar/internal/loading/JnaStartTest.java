package io.nvrar.internal.loading;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The advice must fit the error: not every error of JNA's start is a directory's. */
class JnaStartTest {
  private static String said(Error error) {
    LoadAttempts attempts = new LoadAttempts();
    new JnaStart.Problem("/some/directory", error).addTo(attempts);
    return attempts.lastReason();
  }

  @Test
  void aLibraryOfAnotherVersionIsNotTheDirectorysFault() {
    assertThat(said(new Error("There is an incompatible JNA native library installed")))
        .contains("is of another version than its classes", "unset -Djna.boot.library.path")
        .doesNotContain("/some/directory");
  }

  @Test
  void aClassThatIsMissingIsNotTheDirectorysFault() {
    Error missing = new NoClassDefFoundError("java/util/logging/Logger");
    missing.initCause(new ClassNotFoundException("java.util.logging.Logger"));
    assertThat(said(missing))
        .contains("JNA lacks the class java.util.logging.Logger", "the module java.logging")
        .doesNotContain("/some/directory");
  }

  @Test
  void aLibraryThatCannotBeLinkedIsTheDirectorys() {
    assertThat(said(new UnsatisfiedLinkError("failed to map segment from shared object")))
        .contains("in this directory: /some/directory", "-Djna.tmpdir");
  }
}
