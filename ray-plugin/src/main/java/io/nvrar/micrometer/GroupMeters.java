package io.nvrar.micrometer;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.TimeGauge;
import io.nvrar.Collective;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveStatistics;
import io.nvrar.DataType;
import io.nvrar.GroupStatistics;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * The meters of a group in one registry. All of them are there from the start, because a registry
 * that is being read does not show a meter that is added meanwhile. Their functions get the group
 * from the registry, which refers to it weakly, and must not refer to it themselves.
 */
final class GroupMeters {
  /** One look serves all meters of a scrape. */
  private static final long FRESH_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  /** Held while meters are added to a registry or removed from it. */
  private static final Object CHANGES = new Object();

  private final MeterRegistry registry;
  private final Tags tags;

  /** By identity, because a meter equals every other of its name and tags. */
  private final Set<Meter> meters = Collections.newSetFromMap(new IdentityHashMap<>());

  // Guarded by this.
  private @Nullable GroupStatistics latest;
  private long latestNanos;

  GroupMeters(MeterRegistry registry, CollectiveGroup group, FailureCount failures) {
    this.registry = registry;
    tags = Tags.of("group", group.name(), "rank", Integer.toString(group.rank()));
    synchronized (CHANGES) {
      try {
        addAll(group, failures);
      } catch (RuntimeException | Error e) { // for example of a filter of the registry
        remove();
        throw e;
      }
    }
  }

  private void addAll(CollectiveGroup group, FailureCount failures) {
    addGroup(group, failures);
    for (Collective collective : Collective.values()) {
      addCollective(group, collective);
      if (collective == Collective.BARRIER) {
        addCalls(group, collective, null);
      } else {
        for (DataType type : DataType.values()) {
          addCalls(group, collective, type);
        }
      }
    }
    for (int peer = 0; peer < group.worldSize(); peer++) {
      if (peer != group.rank()) {
        addPeer(group, peer);
      }
    }
  }

  /** Removes the meters, but none that a later group of the same name has replaced. */
  void remove() {
    synchronized (CHANGES) {
      registry.getMeters().stream().filter(meters::contains).forEach(registry::remove);
      meters.clear();
    }
  }

  private synchronized GroupStatistics look(CollectiveGroup group) {
    long now = System.nanoTime();
    GroupStatistics seen = latest;
    if (seen == null || now - latestNanos > FRESH_NANOS) {
      seen = group.statistics();
      latest = seen;
      latestNanos = now;
    }
    return seen;
  }

  /**
   * Adds a meter in place of one of the same name and tags: that of a former group, whose owner may
   * close its metrics later. Without this the registry would keep the former group's.
   */
  private void add(String name, Tags tagged, Supplier<? extends Meter> register) {
    registry.removeByPreFilterId(new Meter.Id(name, tagged, null, null, Meter.Type.OTHER));
    meters.add(register.get());
  }

  private void addGroup(CollectiveGroup group, FailureCount failures) {
    String age = "nvrar.group.age";
    add(
        age,
        tags,
        () ->
            TimeGauge.builder(
                    age, group, TimeUnit.NANOSECONDS, one -> (double) look(one).age().toNanos())
                .tags(tags)
                .description("How long this member has been in the group")
                .register(registry));
    String failed = "nvrar.group.failed";
    // Not by the group's failure(), whose first call decides what later messages say about the
    // flight record.
    add(
        failed,
        tags,
        () ->
            Gauge.builder(failed, group, one -> failures.isEmpty() ? 0 : 1)
                .tags(tags)
                .description("1 once the group has failed")
                .register(registry));
    String causes = "nvrar.group.failures";
    for (FailureCount.Cause cause : FailureCount.Cause.values()) {
      Tags caused = tags.and("cause", cause.tag);
      add(
          causes,
          caused,
          () ->
              FunctionCounter.builder(causes, group, one -> failures.of(cause))
                  .tags(caused)
                  .description("Failures of the group by cause, at most one")
                  .register(registry));
    }
  }

  private void addCalls(CollectiveGroup group, Collective collective, @Nullable DataType type) {
    Tags typed =
        tags.and(
            "collective",
            collective.method(),
            "type",
            type == null ? "none" : type.name().toLowerCase(Locale.ROOT));
    String calls = "nvrar.calls";
    add(
        calls,
        typed,
        () ->
            FunctionCounter.builder(calls, group, of(collective, one -> one.calls(type)))
                .tags(typed)
                .description("Calls that have begun")
                .register(registry));
    if (type != null) {
      String bytes = "nvrar.bytes";
      add(
          bytes,
          typed,
          () ->
              FunctionCounter.builder(bytes, group, of(collective, one -> one.bytes(type)))
                  .tags(typed)
                  .baseUnit("bytes")
                  .description("Bytes of these calls, as the caller counts them")
                  .register(registry));
    }
  }

  private void addCollective(CollectiveGroup group, Collective collective) {
    Tags called = tags.and("collective", collective.method());
    String failed = "nvrar.calls.failed";
    add(
        failed,
        called,
        () ->
            FunctionCounter.builder(failed, group, of(collective, one -> one.failed()))
                .tags(called)
                .description("Calls that have failed after they had begun")
                .register(registry));
    String duration = "nvrar.call.duration";
    add(
        duration,
        called,
        () ->
            FunctionTimer.builder(
                    duration,
                    group,
                    one -> find(look(one), collective, CollectiveStatistics::timed),
                    one -> find(look(one), collective, CollectiveStatistics::timedNanos),
                    TimeUnit.NANOSECONDS)
                .tags(called)
                .description("How long calls took, on the CPU")
                .register(registry));
    // Not named bucket: Prometheus' client takes that from names, because it is a suffix of its
    // own.
    String within = "nvrar.calls.within";
    int buckets = CollectiveStatistics.buckets();
    for (int i = 0; i < buckets; i++) {
      int upTo = i;
      Tags limited = called.and("le", i == buckets - 1 ? "+Inf" : seconds(i));
      add(
          within,
          limited,
          () ->
              FunctionCounter.builder(within, group, of(collective, one -> upTo(one, upTo)))
                  .tags(limited)
                  .description("Calls that took at most so many seconds, on the CPU")
                  .register(registry));
    }
  }

  private void addPeer(CollectiveGroup group, int peer) {
    String wait = "nvrar.peer.wait";
    Tags waitedFor = tags.and("peer", Integer.toString(peer));
    add(
        wait,
        waitedFor,
        () ->
            FunctionTimer.builder(
                    wait,
                    group,
                    one -> look(one).waits(peer),
                    one -> look(one).waitNanos(peer),
                    TimeUnit.NANOSECONDS)
                .tags(waitedFor)
                .description("Waits for another rank, beyond the first moment, on the CPU")
                .register(registry));
  }

  private ToDoubleFunction<CollectiveGroup> of(
      Collective collective, ToLongFunction<CollectiveStatistics> number) {
    return group -> find(look(group), collective, number);
  }

  private static long find(
      GroupStatistics seen, Collective collective, ToLongFunction<CollectiveStatistics> number) {
    for (CollectiveStatistics called : seen.collectives()) {
      if (called.collective() == collective) {
        return number.applyAsLong(called);
      }
    }
    return 0;
  }

  private static long upTo(CollectiveStatistics called, int bucket) {
    long sum = 0;
    long[] durations = called.durations();
    for (int i = 0; i <= bucket; i++) {
      sum += durations[i];
    }
    return sum;
  }

  private static String seconds(int bucket) {
    return Double.toString(CollectiveStatistics.bucketNanos(bucket) / 1e9);
  }
}
