package io.nvrar.tuning;

import static io.nvrar.tuning.JsonValues.constant;
import static io.nvrar.tuning.JsonValues.expect;
import static io.nvrar.tuning.JsonValues.integer;
import static io.nvrar.tuning.JsonValues.requireFirst;
import static io.nvrar.tuning.JsonValues.smallInteger;
import static io.nvrar.tuning.JsonValues.string;
import static io.nvrar.tuning.JsonValues.unknown;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.TuningTable.Collective;
import io.nvrar.TuningTable.LaunchShape;
import io.nvrar.TuningTable.Rule;
import io.nvrar.internal.Printable;
import java.io.IOException;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** A rule of a tuning table as a JSON object. */
final class RuleJson {
  private static final int MAX_QUOTED_CHARS = 80;

  private RuleJson() {}

  private enum Field {
    COLLECTIVE("collective"),
    DATA_TYPE("dataType"),
    WORLD_SIZE("worldSize"),
    GPUS_PER_NODE("gpusPerNode"),
    ARCHITECTURE("architecture"),
    BYTES_MAX("bytesMax"),
    ALGORITHM("algorithm"),
    BLOCKS("blocks"),
    THREADS("threads"),
    TILES("tiles");

    private final String key;

    Field(String key) {
      this.key = key;
    }

    static Field of(String name) {
      for (Field field : values()) {
        if (field.key.equals(name)) {
          return field;
        }
      }
      throw unknown(
          name, String.join(", ", Arrays.stream(values()).map(field -> field.key).toList()));
    }
  }

  static Rule read(JsonReader json) throws IOException {
    expect(json, JsonToken.BEGIN_OBJECT);
    json.beginObject();
    Set<Field> seen = EnumSet.noneOf(Field.class);
    Collective collective = Collective.ALL_REDUCE;
    DataType dataType = null;
    int worldSize = 0;
    int gpusPerNode = 0;
    String architecture = "";
    long bytesMax = 0;
    Algorithm algorithm = Algorithm.AUTO;
    int blocks = 0;
    int threads = 0;
    int tiles = 0;
    while (json.peek() != JsonToken.END_OBJECT) {
      Field field = Field.of(json.nextName());
      requireFirst(field.key, !seen.add(field));
      switch (field) {
        case COLLECTIVE -> collective = constant(json, Collective.class);
        case DATA_TYPE -> dataType = constant(json, DataType.class);
        case WORLD_SIZE -> worldSize = smallInteger(json);
        case GPUS_PER_NODE -> gpusPerNode = smallInteger(json);
        case ARCHITECTURE -> architecture = Printable.of(string(json), MAX_QUOTED_CHARS);
        case BYTES_MAX -> bytesMax = integer(json);
        case ALGORITHM -> algorithm = constant(json, Algorithm.class);
        case BLOCKS -> blocks = smallInteger(json);
        case THREADS -> threads = smallInteger(json);
        case TILES -> tiles = smallInteger(json);
      }
    }
    if (!seen.contains(Field.BYTES_MAX)) {
      throw missing(Field.BYTES_MAX);
    }
    if (collective == Collective.ALL_REDUCE && !seen.contains(Field.ALGORITHM)) {
      throw missing(Field.ALGORITHM);
    }
    Rule rule =
        new Rule(
            dataType,
            worldSize,
            gpusPerNode,
            bytesMax,
            algorithm,
            collective,
            architecture,
            new LaunchShape(blocks, threads, tiles));
    json.endObject();
    return rule;
  }

  private static IllegalArgumentException missing(Field field) {
    return new IllegalArgumentException(
        String.format(Locale.ROOT, "a rule has no %s, every rule needs one", field.key));
  }

  static void write(JsonWriter json, Rule rule) throws IOException {
    json.beginObject();
    if (rule.collective() != Collective.ALL_REDUCE) {
      json.name(Field.COLLECTIVE.key).value(rule.collective().name());
    }
    DataType type = rule.dataType();
    if (type != null) {
      json.name(Field.DATA_TYPE.key).value(type.name());
    }
    writeUnlessZero(json, Field.WORLD_SIZE, rule.worldSize());
    writeUnlessZero(json, Field.GPUS_PER_NODE, rule.gpusPerNode());
    if (!rule.architecture().isEmpty()) {
      json.name(Field.ARCHITECTURE.key).value(rule.architecture());
    }
    json.name(Field.BYTES_MAX.key).value(rule.bytesMax());
    if (rule.algorithm() != Algorithm.AUTO) {
      json.name(Field.ALGORITHM.key).value(rule.algorithm().name());
    }
    writeUnlessZero(json, Field.BLOCKS, rule.shape().blocks());
    writeUnlessZero(json, Field.THREADS, rule.shape().threads());
    writeUnlessZero(json, Field.TILES, rule.shape().tiles());
    json.endObject();
  }

  private static void writeUnlessZero(JsonWriter json, Field field, int value) throws IOException {
    if (value != 0) {
      json.name(field.key).value(value);
    }
  }
}
