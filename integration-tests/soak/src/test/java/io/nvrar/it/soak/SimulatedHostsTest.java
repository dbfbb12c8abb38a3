package io.nvrar.it.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class SimulatedHostsTest {
  @TempDir private Path scratch;

  private @Nullable String obstacle(String... command) throws Exception {
    return SimulatedHosts.obstacle(List.of(command), scratch, Duration.ofSeconds(2));
  }

  @Test
  void whatAMachineSaysToItIsTheObstacle() throws Exception {
    assertThat(obstacle("true")).isNull();
    assertThat(obstacle("sh", "-c", "echo no >&2; exit 1")).isEqualTo("no");
    assertThat(obstacle("sh", "-c", "exit 3")).isEqualTo("sh exits with 3");
    assertThat(obstacle("/nowhere/unshare")).contains("/nowhere/unshare", "No such file");
  }

  @Test
  @Timeout(30)
  void aProbeThatDoesNotEndIsAnObstacleAndIsEnded() throws Exception {
    assertThat(obstacle("sleep", "777")).isEqualTo("sleep does not end within 2 s");
    assertThat(
            ProcessHandle.current()
                .children()
                .filter(child -> child.info().command().orElse("").endsWith("sleep")))
        .isEmpty();
  }

  @Test
  @Timeout(30)
  void aProbeWhoseChildKeepsItsOutputIsNotWaitedFor() throws Exception {
    assertThat(obstacle("sh", "-c", "sleep 5 & exit 0")).isNull();
  }
}
