package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ErrorStreamTest {
  @Test
  void messagesGoToThePlaceThatTheLauncherNames(@TempDir Path directory) throws IOException {
    Path place = Files.writeString(directory.resolve("messages"), "before\n");
    PrintStream original = System.err;
    System.setProperty(ErrorStream.PROPERTY, place.toString());
    try {
      ErrorStream.install();
      System.err.println("größer");
    } finally {
      System.setErr(original);
      System.clearProperty(ErrorStream.PROPERTY);
    }
    assertThat(place).hasContent("before\ngrößer\n");
  }

  @Test
  void placeThatCannotBeOpenedLeavesTheStreamAsItWas(@TempDir Path directory) {
    PrintStream original = System.err;
    System.setProperty(ErrorStream.PROPERTY, directory.resolve("no/such").toString());
    ErrorStream.install();
    assertThat(System.err).isSameAs(original);
    assertThat(System.getProperty(ErrorStream.PROPERTY)).isNull();
  }

  @Test
  void fileIsNoTerminal(@TempDir Path directory) throws IOException {
    assertThat(ErrorStream.isTerminal(Files.createFile(directory.resolve("file")).toString()))
        .isFalse();
  }

  @Test
  void terminalIsSeenThroughItsLink(@TempDir Path directory) throws IOException {
    assumeThat(Path.of("/dev/pts/ptmx")).exists();
    Path link = Files.createSymbolicLink(directory.resolve("fd"), Path.of("/dev/pts/ptmx"));
    assertThat(ErrorStream.isTerminal(link.toString())).isTrue();
  }
}
