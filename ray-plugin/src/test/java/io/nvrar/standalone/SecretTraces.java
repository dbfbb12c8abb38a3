package io.nvrar.standalone;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The forms in which a secret could show in a text or in memory that others can read. */
final class SecretTraces {
  /** Enough to be no accident, so that a part of the secret is found too. */
  private static final int PART_BYTES = 12;

  private final Map<String, byte[]> forms = new LinkedHashMap<>();

  SecretTraces(byte[] secret) {
    byte[] part = Arrays.copyOf(secret, PART_BYTES);
    forms.put("raw bytes", part);
    String hex = HexFormat.of().formatHex(part);
    add("hex", hex);
    add("upper hex", hex.toUpperCase(Locale.ROOT));
    add("hex with colons", HexFormat.ofDelimiter(":").formatHex(part));
    add("hex with spaces", HexFormat.ofDelimiter(" ").formatHex(part));
    String array = Arrays.toString(part);
    add("an array of numbers", array.substring(1, array.length() - 1));
    // Within a longer text the secret can begin at each third of a Base64 group, as in a ticket.
    for (int skip = 0; skip < 3; skip++) {
      byte[] rest = Arrays.copyOfRange(secret, skip, skip + PART_BYTES);
      add("Base64", Base64.getEncoder().encodeToString(rest));
      add("URL Base64", Base64.getUrlEncoder().encodeToString(rest));
    }
    add("escaped bytes", new String(part, StandardCharsets.ISO_8859_1));
  }

  private void add(String name, String text) {
    forms.put(name + " " + forms.size(), text.getBytes(StandardCharsets.UTF_8));
  }

  /** How the secret shows in {@code bytes}, or null if it does not. */
  @Nullable String in(byte[] bytes) {
    for (Map.Entry<String, byte[]> form : forms.entrySet()) {
      if (contains(bytes, form.getValue())) {
        return form.getKey();
      }
    }
    return null;
  }

  Iterable<Map.Entry<String, byte[]>> forms() {
    return forms.entrySet();
  }

  private static boolean contains(byte[] in, byte[] part) {
    for (int at = 0; at + part.length <= in.length; at++) {
      if (Arrays.equals(in, at, at + part.length, part, 0, part.length)) {
        return true;
      }
    }
    return false;
  }
}
