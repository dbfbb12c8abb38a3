package io.nvrar.micrometer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/**
 * A dashboard shows nothing, or a wrong number, if a meter is missing, renamed or of another group.
 */
class GroupMetricsTest {
  private static final Path PAGE = Path.of("..", "docs", "operations.md");
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
  void metersOfWhatHappensLaterAppearAtTheNextLook() throws Exception {
    try (Members members = Members.join("later", 2, Members.config().build());
        GroupMetrics metrics = new GroupMetrics(members.rank(0))) {
      metrics.bindTo(registry);
      assertThat(registry.find("nvrar.calls").meters()).isEmpty();
      members.onAll(GroupMetricsTest::call);
      TimeUnit.MILLISECONDS.sleep(300); // the last look counts as fresh for less
      for (Meter meter : registry.getMeters()) {
        meter.measure().forEach(measurement -> assertThat(measurement.getValue()).isNotNaN());
      }
      assertThat(count("nvrar.calls", "collective", "allReduce")).isEqualTo(7);
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
