package io.nvrar.internal.wire;

import com.esotericsoftware.kryo.kryo5.Kryo;
import com.esotericsoftware.kryo.kryo5.KryoException;
import com.esotericsoftware.kryo.kryo5.Serializer;
import com.esotericsoftware.kryo.kryo5.io.Input;
import com.esotericsoftware.kryo.kryo5.io.Output;
import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.LinkSecurity;
import io.nvrar.MemoryProvider;
import io.nvrar.TuningTable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Serializes a {@link GroupConfig} for {@link Wire}. The builder checks the values that are read.
 */
final class ConfigSerializer extends Serializer<GroupConfig> {
  private static final int ANY_TYPE = -1;

  /** A rule has ten fields, each of at least one byte. */
  private static final int RULE_BYTES_MIN = 10;

  @Override
  public void write(Kryo kryo, Output output, GroupConfig value) {
    kryo.writeObject(output, value.backend().name());
    output.writeLong(value.timeout().toNanos());
    output.writeLong(value.joinTimeout().toNanos());
    output.writeLong(value.heartbeatLimit().toNanos());
    output.writeLong(value.ringBytes());
    output.writeInt(value.rendezvousPort());
    output.writeInt(value.gpusPerNode());
    output.writeByte(value.cuda().memory().code());
    output.writeVarInt(value.cuda().concurrentGroups(), true);
    output.writeVarLong(value.cuda().arenaBytes(), true);
    output.writeBoolean(value.cuda().exclusive());
    output.writeBoolean(value.cuda().programmaticLaunch());
    output.writeVarInt(value.links().firstPort(), true);
    output.writeVarInt(value.links().lastPort(), true);
    kryo.writeObject(output, value.links().networkInterface());
    output.writeByte(value.links().security().code());
    output.writeByte(value.links().threads());
    output.writeVarLong(value.links().spin().toNanos(), true);
    List<TuningTable.Rule> rules = value.tuning().rules();
    output.writeVarInt(rules.size(), true);
    for (TuningTable.Rule rule : rules) {
      DataType type = rule.dataType();
      output.writeByte(type == null ? ANY_TYPE : type.code());
      output.writeVarInt(rule.worldSize(), true);
      output.writeVarInt(rule.gpusPerNode(), true);
      output.writeVarLong(rule.bytesMax(), true);
      output.writeByte(rule.algorithm().code());
      output.writeByte(rule.collective().code());
      output.writeVarInt(rule.architectureCode(), true);
      output.writeVarInt(rule.shape().blocks(), true);
      output.writeVarInt(rule.shape().threads(), true);
      output.writeVarInt(rule.shape().tiles(), true);
    }
  }

  @Override
  public GroupConfig read(Kryo kryo, Input input, Class<? extends GroupConfig> type) {
    return GroupConfig.builder()
        .backend(Backend.valueOf(kryo.readObject(input, String.class)))
        .timeout(Duration.ofNanos(input.readLong()))
        .joinTimeout(Duration.ofNanos(input.readLong()))
        .heartbeatLimit(Duration.ofNanos(input.readLong()))
        .ringBytes(input.readLong())
        .rendezvousPort(input.readInt())
        .gpusPerNode(input.readInt())
        .cuda(
            cuda ->
                cuda.memory(memory(input.readByte()))
                    .concurrentGroups(input.readVarInt(true))
                    .arenaBytes(input.readVarLong(true))
                    .exclusive(input.readBoolean())
                    .programmaticLaunch(input.readBoolean()))
        .links(
            links ->
                links
                    .ports(input.readVarInt(true), input.readVarInt(true))
                    .networkInterface(kryo.readObject(input, String.class))
                    .security(linkSecurity(input.readByte()))
                    .threads(input.readByte())
                    .spin(Duration.ofNanos(input.readVarLong(true))))
        .tuning(readTuning(input))
        .build();
  }

  private static TuningTable readTuning(Input input) {
    int count = Wire.readLength(input, RULE_BYTES_MIN);
    List<TuningTable.Rule> rules = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      rules.add(
          new TuningTable.Rule(
              dataType(input.readByte()),
              input.readVarInt(true),
              input.readVarInt(true),
              input.readVarLong(true),
              algorithm(input.readByte()),
              collective(input.readByte()),
              TuningTable.Rule.architectureOf(input.readVarInt(true)),
              new TuningTable.LaunchShape(
                  input.readVarInt(true), input.readVarInt(true), input.readVarInt(true))));
    }
    return TuningTable.of(rules);
  }

  private static MemoryProvider memory(int code) {
    for (MemoryProvider provider : MemoryProvider.values()) {
      if (provider.code() == code) {
        return provider;
      }
    }
    throw new KryoException("there is no memory provider " + code);
  }

  private static LinkSecurity linkSecurity(int code) {
    for (LinkSecurity security : LinkSecurity.values()) {
      if (security.code() == code) {
        return security;
      }
    }
    throw new KryoException("there is no link security " + code);
  }

  private static @Nullable DataType dataType(int code) {
    if (code == ANY_TYPE) {
      return null;
    }
    for (DataType type : DataType.values()) {
      if (type.code() == code) {
        return type;
      }
    }
    throw new KryoException("there is no data type " + code);
  }

  private static TuningTable.Collective collective(int code) {
    for (TuningTable.Collective collective : TuningTable.Collective.values()) {
      if (collective.code() == code) {
        return collective;
      }
    }
    throw new KryoException("there is no collective " + code);
  }

  private static Algorithm algorithm(int code) {
    for (Algorithm algorithm : Algorithm.values()) {
      if (algorithm.code() == code) {
        return algorithm;
      }
    }
    throw new KryoException("there is no algorithm " + code);
  }
}
