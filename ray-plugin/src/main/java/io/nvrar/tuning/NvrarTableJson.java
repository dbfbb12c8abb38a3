package io.nvrar.tuning;

import static io.nvrar.tuning.JsonValues.expect;
import static io.nvrar.tuning.JsonValues.integer;
import static io.nvrar.tuning.JsonValues.requireFirst;
import static io.nvrar.tuning.JsonValues.smallInteger;
import static io.nvrar.tuning.JsonValues.string;
import static io.nvrar.tuning.JsonValues.unknown;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import io.nvrar.TuningTable.Collective;
import io.nvrar.TuningTable.LaunchShape;
import io.nvrar.TuningTable.Rule;
import io.nvrar.internal.Printable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The table of NVRAR's tuning script: an object that has for each size in bytes the launch of
 * messages from that size up to the next one. What it calls recursive is hierarchical here; its
 * chunk_bytes and avg_time_ms have no counterpart and are read over.
 */
final class NvrarTableJson {
  private static final String FIELDS =
      "num_blocks, threads_per_block, chunk_bytes, algorithm, dtype, avg_time_ms";
  private static final String RECURSIVE = "recursive";
  private static final int MAX_QUOTED_CHARS = 80;

  private NvrarTableJson() {}

  private record Launch(@Nullable DataType dataType, LaunchShape shape) {}

  /** Whether an object whose first name is this one is such a table. */
  static boolean beginsWith(String name) {
    return !name.isEmpty() && name.chars().allMatch(c -> c >= '0' && c <= '9');
  }

  /** Reads the object from behind its first name to its end. */
  static TuningTable read(JsonReader json, String first) throws IOException {
    TreeMap<Long, Launch> launches = new TreeMap<>();
    String name = first;
    while (true) {
      if (!beginsWith(name)) {
        throw unknown(name, "sizes in bytes, as in NVRAR's tables");
      }
      long bytes = integer(name);
      requireFirst(name, launches.containsKey(bytes));
      if (launches.size() == TuningTable.MAX_RULES) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "the table has more than %d sizes, the limit", TuningTable.MAX_RULES));
      }
      launches.put(bytes, launch(json));
      if (json.peek() == JsonToken.END_OBJECT) {
        break;
      }
      name = json.nextName();
    }
    json.endObject();
    return TuningTable.of(rules(launches));
  }

  private static List<Rule> rules(NavigableMap<Long, Launch> launches) {
    List<Rule> rules = new ArrayList<>();
    for (Map.Entry<Long, Launch> each : launches.entrySet()) {
      Long next = launches.higherKey(each.getKey());
      if (next != null && next == 1) {
        continue; // No message is smaller.
      }
      rules.add(
          new Rule(
              each.getValue().dataType(),
              0,
              0,
              next == null ? Long.MAX_VALUE : next - 1,
              Algorithm.HIERARCHICAL,
              Collective.ALL_REDUCE,
              "",
              each.getValue().shape()));
    }
    return rules;
  }

  private static Launch launch(JsonReader json) throws IOException {
    expect(json, JsonToken.BEGIN_OBJECT);
    json.beginObject();
    Set<String> seen = new HashSet<>();
    DataType dataType = null;
    int blocks = 0;
    int threads = 0;
    while (json.peek() != JsonToken.END_OBJECT) {
      String name = json.nextName();
      requireFirst(name, !seen.add(name));
      switch (name) {
        case "num_blocks" -> blocks = smallInteger(json);
        case "threads_per_block" -> threads = smallInteger(json);
        case "chunk_bytes", "avg_time_ms" -> {
          expect(json, JsonToken.NUMBER);
          json.skipValue();
        }
        case "algorithm" -> requireRecursive(string(json));
        case "dtype" -> dataType = dataType(json);
        default -> throw unknown(name, FIELDS);
      }
    }
    Launch launch = new Launch(dataType, new LaunchShape(blocks, threads, 0));
    json.endObject();
    return launch;
  }

  private static void requireRecursive(String algorithm) {
    if (!algorithm.equals(RECURSIVE)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "'%s' is not NVRAR's algorithm, %s",
              Printable.of(algorithm, MAX_QUOTED_CHARS),
              RECURSIVE));
    }
  }

  private static @Nullable DataType dataType(JsonReader json) throws IOException {
    if (json.peek() == JsonToken.NULL) {
      json.nextNull();
      return null;
    }
    String name = string(json);
    DataType type = TuningCache.typeOf(name);
    if (type == null) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "'%s' is no data type", Printable.of(name, MAX_QUOTED_CHARS)));
    }
    return type;
  }
}
