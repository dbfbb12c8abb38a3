package io.nvrar.tuning;

import io.nvrar.DataType;
import io.nvrar.TuningTable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Where {@code nvrar tune} leaves its tables and where they are found again: NVRAR's environment
 * variables and names, {@code tuning_{world size}gpu_{data type}.json}, also for groups on the CPU.
 */
public final class TuningCache {
  /** The variable that names a directory of tables; without it they are in the user's cache. */
  public static final String DIRECTORY_VARIABLE = "NVRAR_CACHE_DIR";

  /** The variable that names one table for all groups, which goes before the directory. */
  public static final String FILE_VARIABLE = "NVSHMEM_ALLREDUCE_CONFIG";

  private TuningCache() {}

  /**
   * The table for groups of a size and a type: the file that {@link #FILE_VARIABLE} names, else the
   * one in {@link #directory()}, else {@link TuningTable#none()}.
   *
   * @throws IllegalArgumentException if the file is there and is not a tuning table
   * @throws java.io.UncheckedIOException if it cannot be read, or {@link #FILE_VARIABLE} names a
   *     file that is not there
   */
  public static TuningTable resolve(int worldSize, DataType dataType) {
    return resolve(worldSize, dataType, System.getenv());
  }

  static TuningTable resolve(int worldSize, DataType dataType, Map<String, String> environment) {
    String named = environment.getOrDefault(FILE_VARIABLE, "");
    if (!named.isEmpty()) {
      return TuningFile.read(Path.of(named));
    }
    for (String typeName : namesOf(dataType)) {
      Path file = directory(environment).resolve(fileName(worldSize, typeName));
      if (Files.exists(file)) {
        return TuningFile.read(file);
      }
    }
    return TuningTable.none();
  }

  /** The name of the file for groups of a size and a type. */
  public static String fileName(int worldSize, DataType dataType) {
    return fileName(worldSize, namesOf(dataType).get(0));
  }

  /**
   * The directory in which tables are looked for: the one that {@link #DIRECTORY_VARIABLE} names,
   * else {@code nvrar} in the user's cache. It may not exist.
   */
  public static Path directory() {
    return directory(System.getenv());
  }

  private static Path directory(Map<String, String> environment) {
    String named = environment.getOrDefault(DIRECTORY_VARIABLE, "");
    if (!named.isEmpty()) {
      return Path.of(named);
    }
    String cache = environment.getOrDefault("XDG_CACHE_HOME", "");
    return cache.isEmpty()
        ? Path.of(System.getProperty("user.home"), ".cache", "nvrar")
        : Path.of(cache, "nvrar");
  }

  private static String fileName(int worldSize, String typeName) {
    return String.format(Locale.ROOT, "tuning_%dgpu_%s.json", worldSize, typeName);
  }

  /** The names of a type in files: PyTorch's, and the one that NVRAR's script has besides. */
  private static List<String> namesOf(DataType dataType) {
    String name = dataType.name().toLowerCase(Locale.ROOT);
    return switch (dataType) {
      case FLOAT16 -> List.of(name, "half");
      case FLOAT32 -> List.of(name, "float");
      case INT32 -> List.of(name, "int");
      case INT8, UINT8, INT64, FLOAT64, BFLOAT16 -> List.of(name);
    };
  }

  /** The type with such a name; null if there is none. */
  static @Nullable DataType typeOf(String name) {
    for (DataType type : DataType.values()) {
      if (namesOf(type).contains(name)) {
        return type;
      }
    }
    return null;
  }
}
