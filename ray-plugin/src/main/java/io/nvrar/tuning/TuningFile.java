package io.nvrar.tuning;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import com.google.gson.stream.MalformedJsonException;
import io.nvrar.TuningTable;
import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.Printable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

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
 * <p>A rule must have {@code bytesMax}, and if it is for all-reduces {@code algorithm}; each other
 * field is optional: {@code dataType}, {@code worldSize}, {@code gpusPerNode} and {@code
 * architecture} match anything if they are left out, {@code collective} is ALL_REDUCE, and {@code
 * blocks}, {@code threads} and {@code tiles} are the library's choice. See {@link
 * TuningTable.Rule}. A table of NVRAR's tuning script, whose fields are sizes in bytes, is read,
 * too. Unknown fields are refused, so that a misspelt name is an error and not a rule that matches
 * more than intended.
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

  /**
   * Writes a table so that whoever reads the file meanwhile sees the old one or the new one.
   *
   * @param madeBy how the table was made, for people who open the file
   * @throws UncheckedIOException if the file cannot be written; then nothing has changed
   */
  public static void write(Path file, TuningTable table, String madeBy) {
    try {
      AtomicFiles.replace(file, json(table, madeBy));
    } catch (IOException e) {
      throw new UncheckedIOException("the tuning file " + e.getMessage(), e);
    }
  }

  private static String json(TuningTable table, String madeBy) throws IOException {
    StringWriter text = new StringWriter();
    try (JsonWriter json = new JsonWriter(text)) {
      json.setIndent("  ");
      json.beginObject();
      json.name("version").value(VERSION);
      json.name("madeBy").value(madeBy);
      json.name("rules").beginArray();
      for (TuningTable.Rule rule : table.rules()) {
        RuleJson.write(json, rule);
      }
      json.endArray().endObject();
    }
    return text.append('\n').toString();
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
            String.format(
                Locale.ROOT,
                "the tuning file %s has more than %d bytes, the limit",
                file,
                MAX_BYTES));
      }
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (CharacterCodingException e) {
      throw new IllegalArgumentException("the tuning file " + file + " is not text in UTF-8", e);
    } catch (NoSuchFileException e) {
      throw new UncheckedIOException("the tuning file " + file + " does not exist", e);
    } catch (IOException e) {
      throw new UncheckedIOException(
          String.format(Locale.ROOT, "the tuning file %s cannot be read: %s", file, e.getMessage()),
          e);
    }
  }

  private static IllegalArgumentException refused(
      Path file, JsonReader json, String why, Exception cause) {
    // "JsonReader at line 3 column 7 path $.rules[0].algorithm"
    String at = json.toString().replaceFirst("^\\w+ at ", "").replace(" path ", " at ");
    return new IllegalArgumentException(
        String.format(
            Locale.ROOT,
            "the tuning file %s cannot be used: %s (%s)",
            file,
            why,
            Printable.of(at, MAX_QUOTED_CHARS)),
        cause);
  }

  private static TuningTable table(JsonReader json) throws IOException {
    JsonValues.expect(json, JsonToken.BEGIN_OBJECT);
    json.beginObject();
    boolean versioned = false;
    boolean described = false;
    List<TuningTable.Rule> rules = null;
    while (json.peek() != JsonToken.END_OBJECT) {
      String name = json.nextName();
      boolean nothingYet = !versioned && !described && rules == null;
      switch (name) {
        case "version" -> {
          JsonValues.requireFirst(name, versioned);
          versioned = true;
          long version = JsonValues.integer(json);
          if (version != VERSION) {
            throw new IllegalArgumentException(
                String.format(
                    Locale.ROOT,
                    "it has version %d, this library reads version %d",
                    version,
                    VERSION));
          }
        }
        case "rules" -> {
          JsonValues.requireFirst(name, rules != null);
          rules = rules(json);
        }
        case "madeBy" -> {
          JsonValues.requireFirst(name, described);
          described = true;
          JsonValues.string(json);
        }
        default -> {
          if (!nothingYet || !NvrarTableJson.beginsWith(name)) {
            throw JsonValues.unknown(name, "version, rules, madeBy");
          }
          TuningTable table = NvrarTableJson.read(json, name);
          requireEnd(json);
          return table;
        }
      }
    }
    json.endObject();
    requireEnd(json);
    if (!versioned) {
      throw new IllegalArgumentException("it has no version, this library reads " + VERSION);
    }
    if (rules == null) {
      throw new IllegalArgumentException("it has no rules, a table needs an array of them");
    }
    return TuningTable.of(rules);
  }

  private static void requireEnd(JsonReader json) throws IOException {
    if (json.peek() != JsonToken.END_DOCUMENT) {
      throw new IllegalArgumentException("something follows the end of the table");
    }
  }

  private static List<TuningTable.Rule> rules(JsonReader json) throws IOException {
    JsonValues.expect(json, JsonToken.BEGIN_ARRAY);
    json.beginArray();
    List<TuningTable.Rule> rules = new ArrayList<>();
    while (json.peek() != JsonToken.END_ARRAY) {
      if (rules.size() == TuningTable.MAX_RULES) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "the table has more than %d rules, the limit", TuningTable.MAX_RULES));
      }
      rules.add(RuleJson.read(json));
    }
    json.endArray();
    return rules;
  }
}
