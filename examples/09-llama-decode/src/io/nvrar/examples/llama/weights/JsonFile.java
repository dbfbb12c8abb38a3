package io.nvrar.examples.llama.weights;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * A JSON object with typed look-ups whose errors say which key of which file is wrong. An explicit
 * null counts as absent, as in transformers.
 *
 * <p>Uses Gson's tree only: in a Ray worker Ray's own, older Gson is in front.
 */
final class JsonFile {
  // What is read here has four levels at most. Gson compares, prints and frees a tree by recursion.
  private static final int MAX_DEPTH = 64;
  private static final int MAX_QUOTED_CHARS = 100;

  /** The cap of positive integers: every product of two such numbers is within a long. */
  static final int MAX_INTEGER = 1 << 28;

  private final String name;
  private final JsonObject object;

  private JsonFile(String name, JsonObject object) {
    this.name = name;
    this.object = object;
  }

  /** Reads a file of at most {@code maxBytes} bytes. */
  static JsonFile read(Path file, long maxBytes) {
    if (!Files.isRegularFile(file)) {
      throw new ModelException("There is no " + file + ".");
    }
    try {
      long size = Files.size(file);
      if (size > maxBytes) {
        throw new ModelException(
            file + " has " + size + " bytes, more than the " + maxBytes + " it may have.");
      }
      LfsPointer.refuse(file, "JSON file");
      return parse(file.toString(), Files.readString(file));
    } catch (IOException e) {
      throw new ModelException(file + " cannot be read: " + e + ".", e);
    }
  }

  /** Parses text that came from {@code name}. */
  static JsonFile parse(String name, String text) {
    JsonElement element;
    try {
      requireShallow(name, text);
      element = JsonParser.parseString(text);
    } catch (IOException | JsonParseException | IllegalStateException e) {
      throw new ModelException(
          name + " is not JSON: " + quoted(String.valueOf(e.getMessage())) + ".", e);
    }
    if (!element.isJsonObject()) {
      throw new ModelException(name + " holds no JSON object.");
    }
    return new JsonFile(name, element.getAsJsonObject());
  }

  @SuppressWarnings("deprecation")
  private static void requireShallow(String name, String text) throws IOException {
    JsonReader json = new JsonReader(new StringReader(text));
    // As JsonParser does, so that both see the same. What replaces this method came with Gson 2.11.
    json.setLenient(true);
    int depth = 0;
    for (JsonToken next = json.peek(); next != JsonToken.END_DOCUMENT; next = json.peek()) {
      switch (next) {
        case BEGIN_ARRAY -> json.beginArray();
        case BEGIN_OBJECT -> json.beginObject();
        case END_ARRAY -> json.endArray();
        case END_OBJECT -> json.endObject();
        case NAME -> json.nextName();
        default -> json.skipValue();
      }
      depth += step(next);
      if (depth > MAX_DEPTH) {
        throw new ModelException(
            String.format(
                Locale.ROOT, "%s nests lists and objects more than %d deep.", name, MAX_DEPTH));
      }
    }
  }

  private static int step(JsonToken token) {
    return switch (token) {
      case BEGIN_ARRAY, BEGIN_OBJECT -> 1;
      case END_ARRAY, END_OBJECT -> -1;
      default -> 0;
    };
  }

  /** Text of a file, fit for a message: in one line, and not as long as the file. */
  static String quoted(String text) {
    String start =
        text.length() <= MAX_QUOTED_CHARS ? text : text.substring(0, MAX_QUOTED_CHARS) + "...";
    return start.replaceAll("\\p{Cc}", "?");
  }

  void set(String key, int value) {
    object.addProperty(key, value);
  }

  void set(String key, String value) {
    object.addProperty(key, value);
  }

  void remove(String key) {
    object.remove(key);
  }

  /** The whole as JSON. */
  String text() {
    return object.toString();
  }

  String name() {
    return name;
  }

  Iterable<String> keys() {
    return object.keySet();
  }

  /** Whether a key is there, if only with null. */
  boolean mentions(String key) {
    return object.has(key);
  }

  /** Whether the value of a key is an object. */
  boolean isObject(String key) {
    JsonElement value = object.get(key);
    return value != null && value.isJsonObject();
  }

  /** Whether an object has no keys. */
  boolean isEmpty() {
    return object.size() == 0;
  }

  boolean has(String key) {
    JsonElement value = object.get(key);
    return value != null && !value.isJsonNull();
  }

  Optional<JsonFile> object(String key) {
    if (!has(key)) {
      return Optional.empty();
    }
    JsonElement value = object.get(key);
    if (!value.isJsonObject()) {
      throw wrong(key, "an object", value);
    }
    return Optional.of(new JsonFile(name, value.getAsJsonObject()));
  }

  int positive(String key) {
    if (!has(key)) {
      throw new ModelException(name + " lacks " + key + ".");
    }
    return positive(key, 0);
  }

  int positive(String key, int absent) {
    if (!has(key)) {
      return absent;
    }
    double value = number(key, 0);
    if (value != Math.rint(value) || value < 1 || value > MAX_INTEGER) {
      throw wrong(key, "an integer from 1 to " + MAX_INTEGER, object.get(key));
    }
    return (int) value;
  }

  double number(String key, double absent) {
    if (!has(key)) {
      return absent;
    }
    JsonElement value = object.get(key);
    if (!value.isJsonPrimitive() || !value.getAsJsonPrimitive().isNumber()) {
      throw wrong(key, "a number", value);
    }
    try {
      return value.getAsDouble();
    } catch (NumberFormatException e) {
      throw wrong(key, "a number", value);
    }
  }

  boolean flag(String key) {
    if (!has(key)) {
      return false;
    }
    JsonElement value = object.get(key);
    if (!value.isJsonPrimitive() || !value.getAsJsonPrimitive().isBoolean()) {
      throw wrong(key, "true or false", value);
    }
    return value.getAsBoolean();
  }

  Optional<String> string(String key) {
    if (!has(key)) {
      return Optional.empty();
    }
    JsonElement value = object.get(key);
    if (!value.isJsonPrimitive() || !value.getAsJsonPrimitive().isString()) {
      throw wrong(key, "a string", value);
    }
    return Optional.of(value.getAsString());
  }

  List<String> strings(String key) {
    List<String> strings = new ArrayList<>();
    if (has(key)) {
      JsonElement value = object.get(key);
      if (!value.isJsonArray()) {
        throw wrong(key, "a list of strings", value);
      }
      for (JsonElement element : value.getAsJsonArray()) {
        if (!element.isJsonPrimitive()) {
          throw wrong(key, "a list of strings", value);
        }
        strings.add(element.getAsString());
      }
    }
    return List.copyOf(strings);
  }

  /** Non-negative integers from a list, or from a single number. */
  List<Long> integers(String key) {
    return integers(key, 0);
  }

  /** Integers of at least {@code least}, 0 or the least of all, from a list or a single number. */
  List<Long> integers(String key, long least) {
    List<Long> integers = new ArrayList<>();
    if (has(key)) {
      JsonElement value = object.get(key);
      Iterable<JsonElement> elements =
          value.isJsonArray() ? value.getAsJsonArray() : List.of(value);
      for (JsonElement element : elements) {
        integers.add(integer(key, element, least));
      }
    }
    return List.copyOf(integers);
  }

  private long integer(String key, JsonElement element, long least) {
    String expected = least < 0 ? "an integer" : "a non-negative integer";
    if (element.isJsonPrimitive()) {
      try {
        long number = Long.parseLong(element.getAsString());
        if (number >= least) {
          return number;
        }
      } catch (NumberFormatException e) {
        throw wrong(key, expected, element);
      }
    }
    throw wrong(key, expected, element);
  }

  private ModelException wrong(String key, String expected, JsonElement found) {
    return new ModelException(
        String.format(
            Locale.ROOT,
            "%s: %s is %s, not %s.",
            name,
            quoted(key),
            quoted(found.toString()),
            expected));
  }
}
