package io.nvrar.internal.flight;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.stream.JsonWriter;
import io.nvrar.internal.Printable;
import io.nvrar.internal.binding.CallRecord;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Reader;
import java.io.Writer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The JSON encoding of a flight record, one object per line: first the header, then each rank
 * followed by its calls.
 */
final class FlightJson {
  private static final String MAGIC = "nvrarFlight";
  private static final int VERSION = 1;

  /** The largest number of ranks of a group. */
  private static final int MAX_RANKS = 512;

  private static final int MAX_LINE_CHARS = 1 << 16;
  private static final int MAX_CALLS = 1 << 16;

  /** More than any name or call has. */
  private static final int MAX_TEXT_CHARS = 512;

  /** That of a failure, with the name of the record behind it. */
  private static final int MAX_MESSAGE_CHARS = 8192 + 3;

  private FlightJson() {}

  static void write(FlightRecord record, Writer out) throws IOException {
    // A JsonWriter writes one object only.
    writeHeader(new JsonWriter(out), record.header());
    out.write('\n');
    for (FlightRecord.Rank rank : record.ranks()) {
      writeRank(new JsonWriter(out), rank);
      out.write('\n');
      for (CallRecord call : rank.calls()) {
        writeCall(new JsonWriter(out), rank.rank(), call);
        out.write('\n');
      }
    }
  }

  private static void writeRank(JsonWriter json, FlightRecord.Rank rank) throws IOException {
    json.beginObject();
    json.name("rank").value(rank.rank());
    json.name("host").value(rank.host());
    json.name("pid").value(rank.pid());
    json.name("calls").value(rank.calls().size());
    json.endObject();
  }

  private static void writeHeader(JsonWriter json, FlightRecord.Header header) throws IOException {
    json.beginObject();
    json.name(MAGIC).value(VERSION);
    json.name("group").value(header.group());
    json.name("id").value(header.groupId());
    json.name("worldSize").value(header.worldSize());
    json.name("backend").value(header.backend());
    json.name("build").value(header.build());
    json.name("time").value(header.time());
    json.name("nanos").value(header.nanos());
    json.name("host").value(header.host());
    json.name("writer").value(header.writer());
    json.name("failure").value(header.kind());
    json.name("message").value(header.message());
    json.name("failedRank").value(header.failedRank());
    json.name("missing").beginArray();
    for (int rank : header.missing()) {
      json.value(rank);
    }
    json.endArray();
    json.endObject();
  }

  private static void writeCall(JsonWriter json, int rank, CallRecord call) throws IOException {
    json.beginObject();
    json.name("rank").value(rank);
    json.name("state").value(call.state().name().toLowerCase(Locale.ROOT));
    json.name("call").value(call.description());
    json.name("collective").value(call.collective());
    json.name("sequence").value(call.sequence());
    json.name("algorithm").value(call.algorithm());
    json.name("launches").value(call.launches());
    json.name("groupSequence").value(call.groupSequence());
    json.name("peer").value(call.peer());
    json.name("transfers").value(call.transfers());
    json.name("begin").value(call.beginNanos());
    json.name("end").value(call.endNanos());
    json.endObject();
  }

  /**
   * Reads what {@link #write} wrote.
   *
   * @throws IllegalArgumentException if this is not a flight record; the message is a clause that
   *     says why
   */
  static FlightRecord read(Reader text) throws IOException {
    Lines lines = new Lines(new BufferedReader(text));
    JsonObject first = lines.next();
    if (first == null || !first.has(MAGIC)) {
      throw new IllegalArgumentException("it does not begin with \"" + MAGIC + "\"");
    }
    try {
      if (first.get(MAGIC).getAsInt() != VERSION) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "it has version %s, this program reads version %d",
                first.get(MAGIC),
                VERSION));
      }
      FlightRecord.Header header = header(first);
      List<FlightRecord.Rank> ranks = new ArrayList<>();
      for (JsonObject line = lines.next(); line != null; line = lines.next()) {
        ranks.add(rank(line, ranks.size(), lines));
      }
      if (ranks.size() != header.worldSize()) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "it ends after %d of %d ranks", ranks.size(), header.worldSize()));
      }
      return new FlightRecord(header, ranks);
    } catch (UnsupportedOperationException | IllegalStateException | NumberFormatException e) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "line %d has a value of another kind", lines.number), e);
    }
  }

  private static FlightRecord.Header header(JsonObject line) {
    int worldSize = integer(line, "worldSize");
    if (worldSize < 1 || worldSize > MAX_RANKS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "its world size is %d, must be 1 to %d", worldSize, MAX_RANKS));
    }
    List<Integer> missing = new ArrayList<>();
    JsonArray array = value(line, "missing").getAsJsonArray();
    for (JsonElement rank : array) {
      missing.add(checkedRank(rank.getAsInt(), worldSize));
    }
    if (missing.size() > worldSize) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "it names %d missing ranks of a world of size %d",
              missing.size(),
              worldSize));
    }
    int failedRank = integer(line, "failedRank");
    return new FlightRecord.Header(
        text(line, "group"),
        text(line, "id"),
        worldSize,
        text(line, "backend"),
        text(line, "build"),
        text(line, "time"),
        value(line, "nanos").getAsLong(),
        text(line, "host"),
        checkedRank(integer(line, "writer"), worldSize),
        text(line, "failure"),
        text(line, "message", MAX_MESSAGE_CHARS),
        failedRank == -1 ? -1 : checkedRank(failedRank, worldSize),
        missing);
  }

  private static int checkedRank(int rank, int worldSize) {
    if (rank < 0 || rank >= worldSize) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "it names rank %d of a world of size %d", rank, worldSize));
    }
    return rank;
  }

  private static FlightRecord.Rank rank(JsonObject line, int expected, Lines lines)
      throws IOException {
    int rank = integer(line, "rank");
    int calls = integer(line, "calls");
    if (rank != expected || rank >= MAX_RANKS || calls < 0 || calls > MAX_CALLS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "line %d has rank %d with %d calls where rank %d belongs",
              lines.number,
              rank,
              calls,
              expected));
    }
    List<CallRecord> records = new ArrayList<>();
    for (int i = 0; i < calls; i++) {
      JsonObject call = lines.next();
      if (call == null) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "it ends after %d of the %d calls of rank %d", i, calls, rank));
      }
      records.add(call(call, lines.number));
    }
    return new FlightRecord.Rank(rank, text(line, "host"), value(line, "pid").getAsLong(), records);
  }

  private static CallRecord call(JsonObject line, int number) {
    String state = text(line, "state");
    for (CallRecord.State known : CallRecord.State.values()) {
      if (known.name().toLowerCase(Locale.ROOT).equals(state)) {
        return new CallRecord(
            known,
            integer(line, "collective"),
            value(line, "sequence").getAsLong(),
            text(line, "call"),
            integer(line, "algorithm"),
            value(line, "launches").getAsLong(),
            value(line, "groupSequence").getAsLong(),
            integer(line, "peer"),
            integer(line, "transfers"),
            value(line, "begin").getAsLong(),
            value(line, "end").getAsLong());
      }
    }
    throw new IllegalArgumentException(
        String.format(Locale.ROOT, "line %d has no call state", number));
  }

  private static String text(JsonObject line, String name) {
    return text(line, name, MAX_TEXT_CHARS);
  }

  /** The text may be printed to a terminal, so it is made printable and cut. */
  private static String text(JsonObject line, String name, int maxChars) {
    return Printable.of(value(line, name).getAsString(), maxChars);
  }

  private static int integer(JsonObject line, String name) {
    return value(line, name).getAsInt();
  }

  private static JsonElement value(JsonObject line, String name) {
    JsonElement value = line.get(name);
    if (value == null) {
      throw new IllegalArgumentException("a line lacks \"" + name + "\"");
    }
    return value;
  }

  /** Reads objects, one per line. */
  private static final class Lines {
    private final BufferedReader text;
    private int number;

    Lines(BufferedReader text) {
      this.text = text;
    }

    /** Returns null at the end. */
    @Nullable JsonObject next() throws IOException {
      StringBuilder line = new StringBuilder();
      int c = text.read();
      for (; c != '\n' && c != -1; c = text.read()) {
        if (line.length() == MAX_LINE_CHARS) {
          throw new IllegalArgumentException(
              String.format(Locale.ROOT, "line %d is too long", number + 1));
        }
        line.append((char) c);
      }
      if (c == -1 && line.isEmpty()) {
        return null;
      }
      number++;
      try {
        JsonElement parsed = JsonParser.parseString(line.toString());
        if (parsed.isJsonObject()) {
          return requireFlat(parsed.getAsJsonObject());
        }
      } catch (JsonParseException e) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "line %d is no JSON", number), e);
      }
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "line %d is no JSON object", number));
    }

    /**
     * Refuses nested lists: for a list of one element Gson recurses into that element, which may be
     * nested arbitrarily deep.
     */
    private JsonObject requireFlat(JsonObject line) {
      for (String name : line.keySet()) {
        JsonElement value = line.get(name);
        if (value.isJsonObject() || (value.isJsonArray() && !isFlat(value.getAsJsonArray()))) {
          throw new IllegalArgumentException(
              String.format(Locale.ROOT, "line %d has a value of another kind", number));
        }
      }
      return line;
    }

    private static boolean isFlat(JsonArray array) {
      for (JsonElement element : array) {
        if (!element.isJsonPrimitive()) {
          return false;
        }
      }
      return true;
    }
  }
}
