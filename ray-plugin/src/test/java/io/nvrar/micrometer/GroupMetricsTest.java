package io.nvrar.micrometer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.core.instrument.config.MeterFilterReply;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/**
 * A dashboard shows nothing, or a wrong number, if a meter is missing, renamed or of another group.
 */
class GroupMetricsTest {
  private static final Path PAGE = Path.of("..", "docs", "guides", "operations.md");
  private static final Pattern ROW = Pattern.compile("(?m)^\\| `(nvrar\\.[a-z.]+)` \\|");

  private final SimpleMeterRegistry registry = new SimpleMeterRegistry();

  private static void call(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 250)) {
      for (int i = 0; i < 7; i++) {
        group.allReduce(buffer);
      }
      if (group.rank() == 1) {
        Thread.sleep(300);
      }
      group.barrier();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private double count(String name, String... tags) {
    return registry.get(name).tags(tags).functionCounter().count();
  }

  @Test
  void aRegistryThatRefusesAMeterKeepsNone() {
    registry
        .config()
        .meterFilter(
            new MeterFilter() {
              @Override
              public MeterFilterReply accept(Meter.Id id) {
                if (id.getName().equals("nvrar.peer.wait")) {
                  throw new IllegalStateException("of a filter");
                }
                return MeterFilterReply.NEUTRAL;
              }
            });
    try (Members members = Members.join("measured", 2, Members.config().build());
        GroupMetrics metrics = new GroupMetrics(members.rank(0))) {
      assertThatThrownBy(() -> metrics.bindTo(registry)).hasMessage("of a filter");
      assertThat(registry.getMeters()).isEmpty();
    }
  }

  @Test
  void theMetersHaveTheNumbersOfTheGroupAndThePageListsThemAll() throws IOException {
    try (Members members = Members.join("measured", 2, Members.config().build());
        GroupMetrics metrics = new GroupMetrics(members.rank(0))) {
      members.onAll(GroupMetricsTest::call);
      metrics.bindTo(registry);
      String[] reduced = {"group", "measured", "rank", "0", "collective", "allReduce"};
      assertThat(registry.get("nvrar.calls").tags(reduced).tag("type", "float32").functionCounter())
          .satisfies(calls -> assertThat(calls.count()).isEqualTo(7));
      assertThat(count("nvrar.bytes", "collective", "allReduce")).isEqualTo(7000);
      assertThat(count("nvrar.calls", "collective", "barrier", "type", "none")).isEqualTo(1);
      assertThat(registry.get("nvrar.call.duration").tags(reduced).functionTimer().count())
          .isEqualTo(7);
      assertThat(
              registry
                  .get("nvrar.call.duration")
                  .tags("collective", "barrier")
                  .functionTimer()
                  .totalTime(TimeUnit.MILLISECONDS))
          .isBetween(100.0, 30_000.0);
      String[] barrier = {"collective", "barrier", "le", "+Inf"};
      assertThat(count("nvrar.calls.within", barrier)).isEqualTo(1);
      assertThat(count("nvrar.calls.within", "collective", "barrier", "le", "0.001048576"))
          .as("barriers that took at most a millisecond")
          .isZero();
      assertThat(
              registry
                  .get("nvrar.peer.wait")
                  .tags("peer", "1")
                  .functionTimer()
                  .totalTime(TimeUnit.MILLISECONDS))
          .isBetween(100.0, 30_000.0);
      assertThat(registry.get("nvrar.group.age").timeGauge().value(TimeUnit.MINUTES))
          .isBetween(0.0001, 5.0);
      assertThat(registry.get("nvrar.group.failed").gauge().value()).isZero();
      Set<String> names =
          registry.getMeters().stream()
              .map(meter -> meter.getId().getName())
              .collect(Collectors.toCollection(TreeSet::new));
      Set<String> documented =
          ROW.matcher(Files.readString(PAGE))
              .results()
              .map(row -> row.group(1))
              .collect(Collectors.toCollection(TreeSet::new));
      assertThat(documented).isEqualTo(names);
    }
    assertThat(registry.getMeters()).as("after the close").isEmpty();
  }

  @Test
  void theFirstLookAfterACallShowsIt() throws Exception {
    try (Members members = Members.join("later", 2, Members.config().build());
        GroupMetrics metrics = new GroupMetrics(members.rank(0))) {
      metrics.bindTo(registry);
      members.onAll(GroupMetricsTest::call);
      // As a registry does that is read: over the meters that are there when it begins.
      Map<String, Double> seen =
          registry.getMeters().stream()
              .filter(meter -> meter.getId().getName().equals("nvrar.calls"))
              .collect(
                  Collectors.toMap(
                      meter -> meter.getId().getTag("collective") + meter.getId().getTag("type"),
                      meter -> ((FunctionCounter) meter).count()));
      assertThat(seen)
          .containsEntry("allReducefloat32", 7.0)
          .containsEntry("allReduceint32", 0.0)
          .containsEntry("barriernone", 1.0)
          .doesNotContainKey("barrierfloat32");
    }
  }

  @Test
  void aNewGroupOfTheSameNameShowsItsOwnNumbersAndKeepsThem() {
    try (Members first = Members.join("again", 1, Members.config().build())) {
      GroupMetrics former = new GroupMetrics(first.rank(0));
      former.bindTo(registry);
      first.rank(0).barrier();
      first.rank(0).abort("no more of it");
      try (Members second = Members.join("again", 1, Members.config().build());
          GroupMetrics later = new GroupMetrics(second.rank(0))) {
        later.bindTo(registry);
        int meters = registry.getMeters().size();
        assertThat(registry.get("nvrar.group.failed").gauge().value()).isZero();
        former.close();
        second.rank(0).barrier();
        second.rank(0).barrier();
        assertThat(registry.getMeters()).as("after the former one's close").hasSize(meters);
        assertThat(count("nvrar.calls", "collective", "barrier")).isEqualTo(2);
      }
      assertThat(registry.getMeters()).as("after the close").isEmpty();
    }
  }

  @Test
  void aLookDecidesNothingAboutTheMessagesOfAFailure() {
    AtomicInteger asked = new AtomicInteger();
    try (Members members = Members.join("asked", 1, Members.config().build())) {
      CollectiveGroup group =
          (CollectiveGroup)
              Proxy.newProxyInstance(
                  CollectiveGroup.class.getClassLoader(),
                  new Class<?>[] {CollectiveGroup.class},
                  (proxy, method, arguments) -> {
                    if (method.getName().equals("failure")) {
                      asked.incrementAndGet();
                    }
                    return method.invoke(members.rank(0), arguments);
                  });
      try (GroupMetrics metrics = new GroupMetrics(group)) {
        metrics.bindTo(registry);
        members.rank(0).abort("on purpose");
        registry.getMeters().forEach(meter -> meter.measure().forEach(one -> {}));
        org.awaitility.Awaitility.await()
            .until(() -> registry.get("nvrar.group.failed").gauge().value() == 1);
        assertThat(asked).hasValue(0);
      }
    }
  }

  @Test
  void aFailureIsCountedByItsCause() {
    try (Members members =
            Members.join("late", 2, Members.config().timeout(Duration.ofMillis(200)).build());
        GroupMetrics metrics = new GroupMetrics(members.rank(0))) {
      metrics.bindTo(registry);
      assertThat(count("nvrar.group.failures", "cause", "timeout")).isZero();
      assertThatThrownBy(members.rank(0)::barrier).isInstanceOf(CollectiveTimeoutException.class);
      org.awaitility.Awaitility.await()
          .until(() -> count("nvrar.group.failures", "cause", "timeout") == 1);
      assertThat(count("nvrar.group.failures", "cause", "peer_lost")).isZero();
      assertThat(registry.get("nvrar.group.failed").gauge().value()).isEqualTo(1);
    }
  }
}
