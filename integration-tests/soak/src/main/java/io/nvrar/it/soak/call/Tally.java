package io.nvrar.it.soak.call;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Counts the correct calls by collective, and the bytes that each rank sent in them. */
public final class Tally {
  private final Map<Collective, Long> calls = new EnumMap<>(Collective.class);
  private long bytes;

  public void add(CallSpec call) {
    calls.merge(call.collective(), 1L, Long::sum);
    bytes += (long) call.count() * call.type().sizeBytes();
  }

  public void add(Tally other) {
    other.calls.forEach((collective, count) -> calls.merge(collective, count, Long::sum));
    bytes += other.bytes;
  }

  public long calls(Collective collective) {
    return calls.getOrDefault(collective, 0L);
  }

  public long calls() {
    return calls.values().stream().mapToLong(Long::longValue).sum();
  }

  public long bytes() {
    return bytes;
  }

  public List<Object> words() {
    return List.of(
        bytes,
        calls.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue())
            .collect(Collectors.joining(",")));
  }

  public static Tally parse(List<String> words) {
    Tally tally = new Tally();
    tally.bytes = Long.parseLong(words.get(0));
    Arrays.stream(words.get(1).split(",", -1))
        .filter(count -> !count.isEmpty())
        .map(count -> count.split("=", 2))
        .forEach(count -> tally.calls.put(Collective.valueOf(count[0]), Long.parseLong(count[1])));
    return tally;
  }
}
