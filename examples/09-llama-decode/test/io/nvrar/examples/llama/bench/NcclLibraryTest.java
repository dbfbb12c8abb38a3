package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class NcclLibraryTest {
  @Test
  void isTheOneOfThePackageElseTheInstalledOne(@TempDir Path directory) throws Exception {
    Path lib = Files.createDirectories(directory.resolve("nvidia/nccl/lib"));
    Path python = directory.resolve("python");
    Files.writeString(
        python,
        String.format(Locale.ROOT, "#!/bin/sh\nPYTHONPATH='%s' exec python3 \"$@\"\n", directory));
    assertThat(python.toFile().setExecutable(true)).isTrue();

    assertThat(NcclLibrary.find(python.toString())).isEqualTo(NcclLibrary.INSTALLED);
    Path library = Files.createFile(lib.resolve("libnccl.so.2"));
    assertThat(NcclLibrary.find(python.toString())).isEqualTo(library.toString());
    assertThat(NcclLibrary.find("/nowhere/python")).isEqualTo(NcclLibrary.INSTALLED);
  }
}
