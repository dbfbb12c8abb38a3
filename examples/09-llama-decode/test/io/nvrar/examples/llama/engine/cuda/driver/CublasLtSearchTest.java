package io.nvrar.examples.llama.engine.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.weights.ModelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CublasLtSearchTest {
  @Test
  void packagesAreThoseOfCuda13AndThoseOfCuda12(@TempDir Path directory) throws Exception {
    Path older = Files.createDirectories(directory.resolve("nvidia/cublas/lib"));
    Path newer = Files.createDirectories(directory.resolve("nvidia/cu13/lib"));
    Path python = directory.resolve("python");
    Files.writeString(
        python,
        String.format(Locale.ROOT, "#!/bin/sh\nPYTHONPATH='%s' exec python3 \"$@\"\n", directory));
    assertThat(python.toFile().setExecutable(true)).isTrue();

    assertThat(CublasLtSearch.ofPackages(python.toString())).doesNotContain(older.toString());
    Files.createFile(older.resolve("libcublas.so.12"));
    Path twelve = Files.createFile(older.resolve("libcublasLt.so.12"));
    Path thirteen = Files.createFile(newer.resolve("libcublasLt.so.13"));
    assertThat(CublasLtSearch.ofPackages(python.toString()))
        .contains(thirteen.toString(), twelve.toString())
        .startsWith(thirteen.toString())
        .noneMatch(file -> file.endsWith("libcublas.so.12"));
    assertThat(CublasLtSearch.ofPackages("/nowhere/python")).isEmpty();
  }

  @Test
  void whatIsNoLibraryOrNoCublasLtIsRefused(@TempDir Path directory) throws Exception {
    Path file = Files.writeString(directory.resolve("libcublasLt.so.12"), "no library");
    assertThatThrownBy(() -> CublasLt.open(file.toString()))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(file.toString())
        .hasMessageNotContaining("\n");
    assertThatThrownBy(() -> CublasLt.open("libm.so.6"))
        .isInstanceOf(ModelException.class)
        .hasMessage("libm.so.6 is no cuBLASLt that can be used here: it has no cublasLtGetVersion");
  }
}
