package io.nvrar.tuning;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.nvrar.internal.Printable;
import java.io.IOException;
import java.util.Arrays;
import java.util.Locale;

/** Values of a JSON file, as strictly as a tuning table needs them. */
final class JsonValues {
  private static final int MAX_QUOTED_CHARS = 80;

  private JsonValues() {}

  static void expect(JsonReader json, JsonToken wanted) throws IOException {
    JsonToken found = json.peek();
    if (found != wanted) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "found %s where %s is required", name(found), name(wanted)));
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

  static int smallInteger(JsonReader json) throws IOException {
    long value = integer(json);
    if (value != (int) value) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%d is too large, the limit is %d", value, Integer.MAX_VALUE));
    }
    return (int) value;
  }

  static long integer(JsonReader json) throws IOException {
    // nextLong would also accept strings and 1.0.
    expect(json, JsonToken.NUMBER);
    return integer(json.nextString());
  }

  static long integer(String digits) {
    try {
      return Long.parseLong(digits);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "%s is not a 64-bit integer", Printable.of(digits, MAX_QUOTED_CHARS)),
          e);
    }
  }

  static String string(JsonReader json) throws IOException {
    expect(json, JsonToken.STRING);
    return json.nextString();
  }

  static <E extends Enum<E>> E constant(JsonReader json, Class<E> type) throws IOException {
    String name = string(json);
    for (E constant : type.getEnumConstants()) {
      if (constant.name().equals(name)) {
        return constant;
      }
    }
    throw new IllegalArgumentException(
        String.format(
            Locale.ROOT,
            "'%s' is not one of %s",
            Printable.of(name, MAX_QUOTED_CHARS),
            Arrays.toString(type.getEnumConstants())));
  }

  static void requireFirst(String name, boolean again) {
    if (again) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "'%s' appears twice", Printable.of(name, MAX_QUOTED_CHARS)));
    }
  }

  static IllegalArgumentException unknown(String name, String known) {
    return new IllegalArgumentException(
        String.format(
            Locale.ROOT,
            "unknown field '%s', known are %s",
            Printable.of(name, MAX_QUOTED_CHARS),
            known));
  }
}
