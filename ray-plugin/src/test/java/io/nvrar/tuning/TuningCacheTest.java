package io.nvrar.tuning;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A table is found by its world size and type, under NVRAR's names. */
class TuningCacheTest {
  @TempDir private Path directory;

  private TuningTable written(String name, long bytesMax) {
    TuningTable table =
        TuningTable.of(List.of(new TuningTable.Rule(null, 0, 0, bytesMax, Algorithm.TWO_SHOT)));
    TuningFile.write(directory.resolve(name), table, "a test");
    return table;
  }

  private TuningTable resolved(int worldSize, DataType type) {
    return TuningCache.resolve(
        worldSize, type, Map.of(TuningCache.DIRECTORY_VARIABLE, directory.toString()));
  }

  @Test
  void theWorldSizeAndTheTypeNameTheFile() {
    TuningTable two = written("tuning_2gpu_bfloat16.json", 2);
    TuningTable four = written("tuning_4gpu_bfloat16.json", 4);
    assertThat(resolved(2, DataType.BFLOAT16)).isEqualTo(two);
    assertThat(resolved(4, DataType.BFLOAT16)).isEqualTo(four);
    assertThat(resolved(8, DataType.BFLOAT16)).isEqualTo(TuningTable.none());
    assertThat(resolved(2, DataType.FLOAT32)).isEqualTo(TuningTable.none());
    assertThat(TuningCache.fileName(2, DataType.FLOAT16)).isEqualTo("tuning_2gpu_float16.json");
  }

  @Test
  void bothNamesOfAHalfAreFoundAndPytorchsGoesFirst() {
    TuningTable half = written("tuning_2gpu_half.json", 8);
    assertThat(resolved(2, DataType.FLOAT16)).isEqualTo(half);
    TuningTable float16 = written("tuning_2gpu_float16.json", 16);
    assertThat(resolved(2, DataType.FLOAT16)).isEqualTo(float16);
  }

  @Test
  void aNamedFileGoesBeforeTheDirectoryAndMustBeThere() {
    written("tuning_2gpu_float32.json", 2);
    TuningTable named = written("named.json", 4);
    Path file = directory.resolve("named.json");
    Map<String, String> environment =
        Map.of(
            TuningCache.DIRECTORY_VARIABLE, directory.toString(),
            TuningCache.FILE_VARIABLE, file.toString());
    assertThat(TuningCache.resolve(2, DataType.FLOAT32, environment)).isEqualTo(named);
    Map<String, String> missing = Map.of(TuningCache.FILE_VARIABLE, file + ".missing");
    assertThatThrownBy(() -> TuningCache.resolve(2, DataType.FLOAT32, missing))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessage("the tuning file " + file + ".missing does not exist");
  }

  @Test
  void aDamagedFileIsNoMissingFile() throws IOException {
    Files.writeString(directory.resolve("tuning_2gpu_int8.json"), "{");
    assertThatThrownBy(() -> resolved(2, DataType.INT8))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("the file ends too early");
  }

  @Test
  void withoutVariablesTheUsersCacheIsTheDirectory() throws IOException {
    Files.createDirectory(directory.resolve("nvrar"));
    TuningTable table = written("nvrar/tuning_3gpu_int.json", 2);
    Map<String, String> environment = Map.of("XDG_CACHE_HOME", directory.toString());
    assertThat(TuningCache.resolve(3, DataType.INT32, environment)).isEqualTo(table);
  }
}
