package io.nvrar.internal.flight;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.nvrar.internal.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What a member says of itself in a file of its host, for those who look on. It changes only when
 * the group fails: what the member does is read from its memory.
 *
 * @param group the group's name
 * @param groupId differs between groups of the same name; not a secret
 * @param worldSize the number of ranks
 * @param backend the backend of the group
 * @param rank this member's rank
 * @param host its host's name
 * @param machine in which processes see each other's memory
 * @param pid its process
 * @param started when that process started, in the kernel's ticks, because numbers of processes are
 *     used again
 * @param descriptor how to find its memory; empty if it never had any
 * @param failure why its group has failed; null if it has not
 */
@SuppressWarnings("ArrayRecordComponent") // never changed
record Presence(
    String group,
    String groupId,
    int worldSize,
    String backend,
    int rank,
    String host,
    String machine,
    long pid,
    long started,
    byte[] descriptor,
    @Nullable String failure) {
  private static final String MAGIC = "nvrarMember";
  private static final int VERSION = 1;
  private static final int MAX_BYTES = 1 << 16;

  /** Those of a large group say what each of 512 ranks did. */
  private static final int MAX_FAILURE_CHARS = 4096;

  /** More than any name has. */
  private static final int MAX_TEXT_CHARS = 512;

  Presence failed(String why) {
    return new Presence(
        group,
        groupId,
        worldSize,
        backend,
        rank,
        host,
        machine,
        pid,
        started,
        descriptor,
        Printable.of(why, MAX_FAILURE_CHARS));
  }

  String toJson() {
    JsonObject json = new JsonObject();
    json.addProperty(MAGIC, VERSION);
    json.addProperty("group", group);
    json.addProperty("id", groupId);
    json.addProperty("worldSize", worldSize);
    json.addProperty("backend", backend);
    json.addProperty("rank", rank);
    json.addProperty("host", host);
    json.addProperty("machine", machine);
    json.addProperty("pid", pid);
    json.addProperty("started", started);
    json.addProperty("descriptor", Base64.getEncoder().encodeToString(descriptor));
    if (failure != null) {
      json.addProperty("failure", failure);
    }
    return json.toString();
  }

  /**
   * Reads a file.
   *
   * @throws IOException if it cannot be read, or is of another version
   */
  static Presence read(Path file) throws IOException {
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      throw new IOException(file + " is no file"); // to read a pipe would take for ever
    }
    if (Files.size(file) > MAX_BYTES) {
      throw new IOException(file + " is too long");
    }
    try {
      JsonObject json = JsonParser.parseString(Files.readString(file, UTF_8)).getAsJsonObject();
      if (integer(json, MAGIC) != VERSION) {
        throw new IOException(
            String.format(
                Locale.ROOT,
                "%s has version %s, this program reads version %d",
                file,
                json.get(MAGIC),
                VERSION));
      }
      JsonElement failure = json.get("failure");
      return new Presence(
          text(json, "group"),
          text(json, "id"),
          integer(json, "worldSize"),
          text(json, "backend"),
          integer(json, "rank"),
          text(json, "host"),
          text(json, "machine"),
          value(json, "pid").getAsLong(),
          value(json, "started").getAsLong(),
          Base64.getDecoder().decode(value(json, "descriptor").getAsString()),
          failure == null
              ? null
              : Printable.of(value(json, "failure").getAsString(), MAX_FAILURE_CHARS + 3));
    } catch (JsonParseException
        | IllegalStateException
        | UnsupportedOperationException
        | IllegalArgumentException e) {
      throw new IOException(file + " does not describe a member of a group", e);
    }
  }

  private static int integer(JsonObject json, String name) {
    return value(json, name).getAsInt();
  }

  private static String text(JsonObject json, String name) {
    return Printable.of(value(json, name).getAsString(), MAX_TEXT_CHARS);
  }

  private static JsonElement value(JsonObject json, String name) {
    JsonElement value = json.get(name);
    // Of a list of one element Gson gives that element's value, however deep it is nested.
    if (value == null || !value.isJsonPrimitive()) {
      throw new IllegalStateException("it lacks " + name);
    }
    return value;
  }
}
