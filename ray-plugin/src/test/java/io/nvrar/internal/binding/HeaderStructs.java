package io.nvrar.internal.binding;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The structs and constants of {@code nvrar.h}, where a C compiler puts each field. */
final class HeaderStructs {
  private static final Path HEADER = Path.of("..", "native", "include", "nvrar.h");

  private static final Map<String, Integer> SIZES =
      Map.of(
          "char", 1,
          "uint8_t", 1,
          "uint16_t", 2,
          "int32_t", 4,
          "uint32_t", 4,
          "nvrar_status", 4,
          "float", 4,
          "uint64_t", 8);

  private static final Pattern DEFINE = Pattern.compile("#define (NVRAR_\\w+) (\\d+)\\b");
  private static final Pattern CONSTANT = Pattern.compile("\\b(NVRAR_\\w+) = (\\d+)");
  private static final Pattern STRUCT =
      Pattern.compile("typedef struct (\\w+) \\{(.*?)\\} \\1;", Pattern.DOTALL);
  private static final Pattern FIELD = Pattern.compile("\\s*(\\w+) (\\w+)(?:\\[(\\w+)\\])?\\s*");

  private final Map<String, Integer> constants = new HashMap<>();
  private final Map<String, Struct> structs = new HashMap<>();

  private HeaderStructs(String header) {
    String code = header.replaceAll("(?s)/\\*.*?\\*/", " ");
    for (Pattern pattern : new Pattern[] {DEFINE, CONSTANT}) {
      Matcher matcher = pattern.matcher(code);
      while (matcher.find()) {
        constants.put(matcher.group(1), Integer.valueOf(matcher.group(2)));
      }
    }
    Matcher struct = STRUCT.matcher(code);
    while (struct.find()) {
      structs.put(struct.group(1), struct(struct.group(1), struct.group(2)));
    }
  }

  static HeaderStructs read() {
    try {
      return new HeaderStructs(Files.readString(HEADER));
    } catch (IOException e) {
      throw new AssertionError("no " + HEADER, e);
    }
  }

  private Struct struct(String name, String body) {
    Map<String, Integer> offsets = new LinkedHashMap<>();
    int at = 0;
    int alignment = 1;
    for (String line : body.split(";", -1)) {
      Matcher field = FIELD.matcher(line);
      if (line.isBlank()) {
        continue;
      }
      if (!field.matches() || !SIZES.containsKey(field.group(1))) {
        throw new AssertionError("what is the field '" + line.strip() + "' of " + name + "?");
      }
      int size = SIZES.get(field.group(1));
      at = (at + size - 1) / size * size;
      offsets.put(field.group(2), at);
      alignment = Math.max(alignment, size);
      at += size * count(field.group(3));
    }
    return new Struct(name, offsets, (at + alignment - 1) / alignment * alignment);
  }

  private int count(@Nullable String dimension) {
    if (dimension == null) {
      return 1;
    }
    return dimension.matches("\\d+") ? Integer.parseInt(dimension) : constant(dimension);
  }

  /** The value of a constant. */
  int constant(String name) {
    if (!constants.containsKey(name)) {
      throw new AssertionError("nvrar.h has no " + name);
    }
    return constants.get(name);
  }

  /** A struct. */
  Struct of(String name) {
    if (!structs.containsKey(name)) {
      throw new AssertionError("nvrar.h has no struct " + name);
    }
    return structs.get(name);
  }

  /**
   * Where its fields are.
   *
   * @param bytes sizeof the struct
   */
  record Struct(String name, Map<String, Integer> offsets, int bytes) {
    int offset(String field) {
      if (!offsets.containsKey(field)) {
        throw new AssertionError(name + " has no field " + field);
      }
      return offsets.get(field);
    }

    int getInt(ByteBuffer in, String field) {
      return in.getInt(offset(field));
    }

    long getLong(ByteBuffer in, String field) {
      return in.getLong(offset(field));
    }

    /** An empty struct of this kind. */
    byte[] make() {
      return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder()).putInt(0, bytes).array();
    }
  }
}
