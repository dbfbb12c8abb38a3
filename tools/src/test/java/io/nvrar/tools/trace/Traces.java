package io.nvrar.tools.trace;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Reads traces as their viewers do. */
final class Traces {
  private Traces() {}

  record Slice(int rank, int track, String name, double begin, double end, JsonObject arguments) {}

  static JsonObject read(Path file) throws IOException {
    return JsonParser.parseString(Files.readString(file)).getAsJsonObject();
  }

  static List<Slice> slices(Path file) throws IOException {
    List<Slice> slices = new ArrayList<>();
    for (JsonElement element : read(file).getAsJsonArray("traceEvents")) {
      JsonObject event = element.getAsJsonObject();
      if (event.get("ph").getAsString().equals("X")) {
        double begin = event.get("ts").getAsDouble();
        slices.add(
            new Slice(
                event.get("pid").getAsInt(),
                event.get("tid").getAsInt(),
                event.get("name").getAsString(),
                begin,
                begin + event.get("dur").getAsDouble(),
                event.getAsJsonObject("args")));
      }
    }
    return slices;
  }

  /** The names of processes or tracks. */
  static List<String> names(Path file, String what) throws IOException {
    List<String> names = new ArrayList<>();
    for (JsonElement element : read(file).getAsJsonArray("traceEvents")) {
      JsonObject event = element.getAsJsonObject();
      if (event.get("name").getAsString().equals(what)) {
        names.add(event.getAsJsonObject("args").get("name").getAsString());
      }
    }
    return names;
  }
}
