package io.nvrar.tools.trace;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.nvrar.internal.AtomicFiles;
import java.io.IOException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A trace in the Trace Event Format, which Perfetto and chrome://tracing open: processes, which are
 * ranks here, with tracks of slices. Times are in microseconds from any beginning.
 */
public final class ChromeTrace {
  private final JsonArray events = new JsonArray();

  /** An empty trace. */
  public ChromeTrace() {}

  /** Names a process, by default its number; processes are shown in the order of their numbers. */
  public void process(int process, String name) {
    JsonObject arguments = new JsonObject();
    arguments.addProperty("name", name);
    add("M", process, 0, "process_name", arguments);
    JsonObject order = new JsonObject();
    order.addProperty("sort_index", process);
    add("M", process, 0, "process_sort_index", order);
  }

  /** Names a track of a process. */
  public void track(int process, int track, String name) {
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
      @Nullable JsonObject arguments) {
    JsonObject event = add("X", process, track, name, arguments);
    event.addProperty("ts", begin);
    event.addProperty("dur", length);
  }

  private JsonObject add(
      String phase, int process, int track, String name, @Nullable JsonObject arguments) {
    JsonObject event = new JsonObject();
    event.addProperty("ph", phase);
    event.addProperty("name", name);
    event.addProperty("pid", process);
    event.addProperty("tid", track);
    if (arguments != null) {
      event.add("args", arguments);
    }
    events.add(event);
    return event;
  }

  /**
   * Writes the file.
   *
   * @param about what is said of the trace as a whole
   */
  public void write(Path file, JsonObject about) throws IOException {
    JsonObject root = new JsonObject();
    root.add("traceEvents", events);
    root.addProperty("displayTimeUnit", "ns");
    root.add("otherData", about);
    AtomicFiles.replace(file, root + "\n");
  }
}
