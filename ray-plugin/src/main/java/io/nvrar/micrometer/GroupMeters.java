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
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * The meters of a group in one registry. Their functions get the group from the registry, which
 * refers to it weakly, and must not refer to it themselves.
 */
final class GroupMeters {
  /** One look serves all meters of a scrape. */
  private static final long FRESH_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private final MeterRegistry registry;
  private final Tags tags;
  private final int rank;
  private final int worldSize;
  private final List<Meter> meters = new CopyOnWriteArrayList<>();

  /** What has meters already. Guarded by this, as the following. */
  private final Set<Object> known = new HashSet<>();

  private @Nullable GroupStatistics latest;
  private long latestNanos;
  private boolean removed;

  GroupMeters(MeterRegistry registry, CollectiveGroup group, FailureCount failures) {
    this.registry = registry;
    rank = group.rank();
    worldSize = group.worldSize();
    tags = Tags.of("group", group.name(), "rank", Integer.toString(rank));
    meters.add(
        TimeGauge.builder(
                "nvrar.group.age",
                group,
                TimeUnit.NANOSECONDS,
                one -> (double) look(one).age().toNanos())
            .tags(tags)
            .description("How long this member has been in the group")
            .register(registry));
    meters.add(
        Gauge.builder("nvrar.group.failed", group, one -> one.failure() == null ? 0 : 1)
            .tags(tags)
            .description("1 once the group has failed")
            .register(registry));
    for (FailureCount.Cause cause : FailureCount.Cause.values()) {
      meters.add(
          FunctionCounter.builder("nvrar.group.failures", group, one -> failures.of(cause))
              .tags(tags.and("cause", cause.tag))
              .description("Failures of the group by cause, at most one")
              .register(registry));
    }
    look(group);
  }

  synchronized void remove() {
    removed = true;
    meters.forEach(registry::remove);
    meters.clear();
  }

  private synchronized GroupStatistics look(CollectiveGroup group) {
    long now = System.nanoTime();
    GroupStatistics seen = latest;
    if (seen == null || now - latestNanos > FRESH_NANOS) {
      seen = group.statistics();
      latest = seen;
      latestNanos = now;
      if (!removed) {
        meet(group, seen);
      }
    }
    return seen;
  }

  /** Registers the meters of what has happened for the first time. */
  private void meet(CollectiveGroup group, GroupStatistics seen) {
    for (CollectiveStatistics called : seen.collectives()) {
      Collective collective = called.collective();
      if (known.add(collective)) {
        addCollective(group, collective);
      }
      if (called.calls(null) > 0 && known.add(List.of(collective))) {
        addCalls(group, collective, null);
      }
      for (DataType type : DataType.values()) {
        if (called.calls(type) > 0 && known.add(List.of(collective, type))) {
          addCalls(group, collective, type);
        }
      }
    }
    for (int peer = 0; peer < worldSize; peer++) {
      if (peer != rank && seen.waits(peer) > 0 && known.add(peer)) {
        addPeer(group, peer);
      }
    }
  }

  private void addCalls(CollectiveGroup group, Collective collective, @Nullable DataType type) {
    Tags typed =
        tags.and(
            "collective",
            collective.method(),
            "type",
            type == null ? "none" : type.name().toLowerCase(Locale.ROOT));
    meters.add(
        FunctionCounter.builder("nvrar.calls", group, of(collective, one -> one.calls(type)))
            .tags(typed)
            .description("Calls that have begun")
            .register(registry));
    if (type != null) {
      meters.add(
          FunctionCounter.builder("nvrar.bytes", group, of(collective, one -> one.bytes(type)))
              .tags(typed)
              .baseUnit("bytes")
              .description("Bytes of these calls, as the caller counts them")
              .register(registry));
    }
  }

  private void addCollective(CollectiveGroup group, Collective collective) {
    Tags called = tags.and("collective", collective.method());
    meters.add(
        FunctionCounter.builder("nvrar.calls.failed", group, of(collective, one -> one.failed()))
            .tags(called)
            .description("Calls that have failed after they had begun")
            .register(registry));
    meters.add(
        FunctionTimer.builder(
                "nvrar.call.duration",
                group,
                one -> find(look(one), collective, CollectiveStatistics::timed),
                one -> find(look(one), collective, CollectiveStatistics::timedNanos),
                TimeUnit.NANOSECONDS)
            .tags(called)
            .description("How long calls took, on the CPU")
            .register(registry));
    int buckets = CollectiveStatistics.buckets();
    // Not named bucket: Prometheus' client takes that from names, because it is a suffix of its
    // own.
    for (int i = 0; i < buckets; i++) {
      int upTo = i;
      meters.add(
          FunctionCounter.builder(
                  "nvrar.calls.within", group, of(collective, one -> upTo(one, upTo)))
              .tags(called.and("le", i == buckets - 1 ? "+Inf" : seconds(i)))
              .description("Calls that took at most so many seconds, on the CPU")
              .register(registry));
    }
  }

  private void addPeer(CollectiveGroup group, int peer) {
    meters.add(
        FunctionTimer.builder(
                "nvrar.peer.wait",
                group,
                one -> look(one).waits(peer),
                one -> look(one).waitNanos(peer),
                TimeUnit.NANOSECONDS)
            .tags(tags.and("peer", Integer.toString(peer)))
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
