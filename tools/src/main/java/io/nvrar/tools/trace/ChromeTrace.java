package io.nvrar.tools.trace;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.stream.JsonWriter;
import io.nvrar.internal.AtomicFiles;
import java.io.IOException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A trace in the Trace Event Format, which Perfetto and chrome://tracing open: processes, which are
 * ranks here, with tracks of slices. Times are in microseconds from any beginning. Events are
 * written as they come, because a large flight record has more of them than fit into memory.
 */
public final class ChromeTrace {
  private static final Gson GSON = new Gson();

  private final JsonWriter out;

  private ChromeTrace(JsonWriter out) {
    this.out = out;
  }

  /** What a trace shows. */
  @FunctionalInterface
  public interface Events {
    /** Adds all of it. */
    void addTo(ChromeTrace trace) throws IOException;
  }

  /**
   * Writes a trace to a file, which is replaced if it exists: by all of it or not at all.
   *
   * @param about what is said of the trace as a whole
   * @param events its processes, tracks and slices
   */
  public static void write(Path file, JsonObject about, Events events) throws IOException {
    AtomicFiles.replace(
        file,
        text -> {
          JsonWriter out = new JsonWriter(text);
          out.beginObject();
          out.name("traceEvents").beginArray();
          events.addTo(new ChromeTrace(out));
          out.endArray();
          out.name("displayTimeUnit").value("ns");
          out.name("otherData");
          GSON.toJson(about, out);
          out.endObject();
          out.flush();
          text.write('\n');
        });
  }

  /** Names a process, by default its number; processes are shown in the order of their numbers. */
  public void process(int process, String name) throws IOException {
    JsonObject arguments = new JsonObject();
    arguments.addProperty("name", name);
    add("M", process, 0, "process_name", arguments);
    JsonObject order = new JsonObject();
    order.addProperty("sort_index", process);
    add("M", process, 0, "process_sort_index", order);
  }

  /** Names a track of a process. */
  public void track(int process, int track, String name) throws IOException {
    JsonObject arguments = new JsonObject();
    arguments.addProperty("name", name);
    add("M", process, track, "thread_name", arguments);
  }

  /**
   * Adds a slice. Those of one track must not overlap in part; one may lie within another.
   *
   * @param begin in microseconds
   * @param length in microseconds
   * @param arguments what is shown of it when it is selected
   */
  public void slice(
      int process,
      int track,
      String name,
      double begin,
      double length,
      @Nullable JsonObject arguments)
      throws IOException {
    begin("X", process, track, name, arguments);
    out.name("ts").value(begin);
    out.name("dur").value(length);
    out.endObject();
  }

  private void add(String phase, int process, int track, String name, JsonObject arguments)
      throws IOException {
    begin(phase, process, track, name, arguments);
    out.endObject();
  }

  private void begin(
      String phase, int process, int track, String name, @Nullable JsonObject arguments)
      throws IOException {
    out.beginObject();
    out.name("ph").value(phase);
    out.name("name").value(name);
    out.name("pid").value(process);
    out.name("tid").value(track);
    if (arguments != null) {
      out.name("args");
      GSON.toJson(arguments, out);
    }
  }
}
