package io.nvrar.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DoctorTest {
  @Test
  void machineThatRunsTheseTestsCanRunTheCpuBackend() {
    StringWriter out = new StringWriter();
    int code = Main.run(new PrintWriter(out, true), new PrintWriter(out, true), "doctor");
    assertThat(out.toString())
        .containsPattern("ok +native library +/.*libnvrar\\.so, build \\S+, ABI 3")
        .containsPattern("ok +JNA +5\\.8\\.0")
        .containsPattern("ok +CPU backend")
        .containsPattern("(ok|none) +libcuda");
    assertThat(code).isZero();
  }

  @Test
  void libraryIsFoundInTheFirstDirectoryThatHasIt(@TempDir Path directory) throws IOException {
    Path first = Files.createDirectory(directory.resolve("first"));
    Path second = Files.createDirectory(directory.resolve("second"));
    Files.createFile(second.resolve("libx.so.1.2"));
    Files.createSymbolicLink(second.resolve("libx.so.1"), Path.of("libx.so.1.2"));
    SharedLibraries libraries = SharedLibraries.of(first + "::" + second);
    assertThat(libraries.find("libx.so.1"))
        .contains(
            second.resolve("libx.so.1") + " -> " + second.toRealPath().resolve("libx.so.1.2"));
    assertThat(libraries.find("liby.so.1")).isEmpty();
    assertThat(libraries.places()).startsWith(first + ", " + second + ", /usr/lib");
  }
}
