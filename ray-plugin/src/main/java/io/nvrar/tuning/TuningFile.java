package io.nvrar.tuning;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.MalformedJsonException;
import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import io.nvrar.internal.Printable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * Reads a {@link TuningTable} from a JSON file such as:
 *
 * <pre>{@code
 * {
 *   "version": 1,
 *   "rules": [
 *     {"dataType": "BFLOAT16", "worldSize": 4, "gpusPerNode": 4, "bytesMax": 65536, "algorithm": "ONE_SHOT"},
 *     {"bytesMax": 1048576, "algorithm": "TWO_SHOT"}
 *   ]
 * }
 * }</pre>
 *
 * <p>A rule must have {@code bytesMax} and {@code algorithm}; each other field is optional and
 * matches anything if it is left out. Unknown fields are refused, so that a misspelt name is an
 * error and not a rule that matches more than intended.
 */
public final class TuningFile {
  private static final int VERSION = 1;
  private static final int MAX_BYTES = 1 << 20;
  private static final int MAX_QUOTED_CHARS = 80;

  private TuningFile() {}

  /**
   * Reads a table.
   *
   * @throws IllegalArgumentException if the file is not a tuning table; the message is one sentence
   *     with the path, the line and the column
   * @throws UncheckedIOException if the file cannot be read
   */
  public static TuningTable read(Path file) {
    String text = text(file);
    // Gson's default strictness already refuses comments and similar extensions. The stricter mode
    // came with Gson 2.11, which the workers of older Ray clusters do not have.
    JsonReader json = new JsonReader(new StringReader(text));
    try {
      return table(json);
    } catch (EOFException e) {
      throw refused(file, json, "the file ends too early", e);
    } catch (MalformedJsonException e) {
      throw refused(file, json, "not JSON", e);
    } catch (IllegalArgumentException e) {
      throw refused(file, json, String.valueOf(e.getMessage()), e);
    } catch (IOException e) {
      throw new UncheckedIOException("the tuning file " + file + " cannot be read", e);
    }
  }

  private static String text(Path file) {
    try {
      if (Files.exists(file) && !Files.isRegularFile(file)) {
        throw new IllegalArgumentException("the tuning file " + file + " is not a regular file");
      }
      byte[] bytes;
      try (InputStream in = Files.newInputStream(file)) {
        bytes = in.readNBytes(MAX_BYTES + 1);
      }
      if (bytes.length > MAX_BYTES) {
        throw new IllegalArgumentException(
            "the tuning file %s has more than %d bytes, the limit".formatted(file, MAX_BYTES));
      }
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (CharacterCodingException e) {
      throw new IllegalArgumentException("the tuning file " + file + " is not text in UTF-8", e);
    } catch (NoSuchFileException e) {
      throw new UncheckedIOException("the tuning file " + file + " does not exist", e);
    } catch (IOException e) {
      throw new UncheckedIOException(
          "the tuning file %s cannot be read: %s".formatted(file, e.getMessage()), e);
    }
  }

  private static IllegalArgumentException refused(
      Path file, JsonReader json, String why, Exception cause) {
    // "JsonReader at line 3 column 7 path $.rules[0].algorithm"
    String at = json.toString().replaceFirst("^\\w+ at ", "").replace(" path ", " at ");
    return new IllegalArgumentException(
        "the tuning file %s cannot be used: %s (%s)"
            .formatted(file, why, Printable.of(at, MAX_QUOTED_CHARS)),
        cause);
  }

  private static TuningTable table(JsonReader json) throws IOException {
    expect(json, JsonToken.BEGIN_OBJECT);
    json.beginObject();
    boolean versioned = false;
    List<TuningTable.Rule> rules = null;
    while (json.peek() != JsonToken.END_OBJECT) {
      String name = json.nextName();
      switch (name) {
        case "version" -> {
          requireFirst(name, versioned);
          versioned = true;
          long version = integer(json);
          if (version != VERSION) {
            throw new IllegalArgumentException(
                "it has version %d, this library reads version %d".formatted(version, VERSION));
          }
        }
        case "rules" -> {
          requireFirst(name, rules != null);
          rules = rules(json);
        }
        default -> throw unknown(name, "version, rules");
      }
    }
    json.endObject();
    if (json.peek() != JsonToken.END_DOCUMENT) {
      throw new IllegalArgumentException("something follows the end of the table");
    }
    if (!versioned) {
      throw new IllegalArgumentException("it has no version, this library reads " + VERSION);
    }
    if (rules == null) {
      throw new IllegalArgumentException("it has no rules, a table needs an array of them");
    }
    return TuningTable.of(rules);
  }

  private static List<TuningTable.Rule> rules(JsonReader json) throws IOException {
    expect(json, JsonToken.BEGIN_ARRAY);
    json.beginArray();
    List<TuningTable.Rule> rules = new ArrayList<>();
    while (json.peek() != JsonToken.END_ARRAY) {
      if (rules.size() == TuningTable.MAX_RULES) {
        throw new IllegalArgumentException(
            "the table has more than %d rules, the limit".formatted(TuningTable.MAX_RULES));
      }
      rules.add(rule(json));
    }
    json.endArray();
    return rules;
  }

  private enum Field {
    DATA_TYPE("dataType"),
    WORLD_SIZE("worldSize"),
    GPUS_PER_NODE("gpusPerNode"),
    BYTES_MAX("bytesMax"),
    ALGORITHM("algorithm");

    private final String key;

    Field(String key) {
      this.key = key;
    }

    static Field of(String name) {
      for (Field field : values()) {
        if (field.key.equals(name)) {
          return field;
        }
      }
      throw unknown(
          name, String.join(", ", Arrays.stream(values()).map(field -> field.key).toList()));
    }
  }

  private static TuningTable.Rule rule(JsonReader json) throws IOException {
    expect(json, JsonToken.BEGIN_OBJECT);
    json.beginObject();
    Set<Field> seen = EnumSet.noneOf(Field.class);
    DataType dataType = null;
    int worldSize = 0;
    int gpusPerNode = 0;
    long bytesMax = 0;
    Algorithm algorithm = null;
    while (json.peek() != JsonToken.END_OBJECT) {
      Field field = Field.of(json.nextName());
      requireFirst(field.key, !seen.add(field));
      switch (field) {
        case DATA_TYPE -> dataType = constant(json, DataType.class);
        case WORLD_SIZE -> worldSize = smallInteger(json);
        case GPUS_PER_NODE -> gpusPerNode = smallInteger(json);
        case BYTES_MAX -> bytesMax = integer(json);
        case ALGORITHM -> algorithm = constant(json, Algorithm.class);
      }
    }
    if (!seen.contains(Field.BYTES_MAX)) {
      throw missing(Field.BYTES_MAX);
    }
    if (algorithm == null) {
      throw missing(Field.ALGORITHM);
    }
    TuningTable.Rule rule =
        new TuningTable.Rule(dataType, worldSize, gpusPerNode, bytesMax, algorithm);
    json.endObject();
    return rule;
  }

  private static IllegalArgumentException missing(Field field) {
    return new IllegalArgumentException(
        "a rule has no %s, every rule needs one".formatted(field.key));
  }

  private static void requireFirst(String name, boolean again) {
    if (again) {
      throw new IllegalArgumentException("'%s' appears twice".formatted(name));
    }
  }

  private static IllegalArgumentException unknown(String name, String known) {
    return new IllegalArgumentException(
        "unknown field '%s', known are %s".formatted(Printable.of(name, MAX_QUOTED_CHARS), known));
  }

  private static void expect(JsonReader json, JsonToken wanted) throws IOException {
    JsonToken found = json.peek();
    if (found != wanted) {
      throw new IllegalArgumentException(
          "found %s where %s is required".formatted(name(found), name(wanted)));
    }
  }

  private static String name(JsonToken token) {
    return switch (token) {
      case BEGIN_ARRAY -> "an array";
      case BEGIN_OBJECT -> "an object";
      case END_DOCUMENT -> "the end of the file";
      default -> "a " + token.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    };
  }

  private static int smallInteger(JsonReader json) throws IOException {
    long value = integer(json);
    if (value != (int) value) {
      throw new IllegalArgumentException(
          "%d is too large, the limit is %d".formatted(value, Integer.MAX_VALUE));
    }
    return (int) value;
  }

  private static long integer(JsonReader json) throws IOException {
    // nextLong would also accept strings and 1.0.
    expect(json, JsonToken.NUMBER);
    String digits = json.nextString();
    try {
      return Long.parseLong(digits);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          "%s is not a 64-bit integer".formatted(Printable.of(digits, MAX_QUOTED_CHARS)), e);
    }
  }

  private static <E extends Enum<E>> E constant(JsonReader json, Class<E> type) throws IOException {
    expect(json, JsonToken.STRING);
    String name = json.nextString();
    for (E constant : type.getEnumConstants()) {
      if (constant.name().equals(name)) {
        return constant;
      }
    }
    throw new IllegalArgumentException(
        "'%s' is not one of %s"
            .formatted(
                Printable.of(name, MAX_QUOTED_CHARS), Arrays.toString(type.getEnumConstants())));
  }
}
