package io.nvrar.examples.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class ClusterAddressTest {
  @AfterEach
  void forget() {
    for (String property :
        new String[] {"ray.address", "ray.node-ip", "nvrar.cli.keeper", "nvrar.cli.keeper.pid"}) {
      System.clearProperty(property);
    }
  }

  @Test
  void anAddressThatNothingAnswersAtIsNamed() {
    assertThatThrownBy(() -> ClusterAddress.use("127.0.0.1:1"))
        .isInstanceOf(CollectiveException.class)
        .hasMessage(
            "nothing answers at 127.0.0.1:1, where a Ray cluster was to be: Connection refused");
    assertThatThrownBy(() -> ClusterAddress.use("nowhere"))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("'nowhere', where a Ray cluster was to be, is no HOST:PORT");
    assertThatThrownBy(() -> ClusterAddress.use("127.0.0.1:99999"))
        .isInstanceOf(CollectiveException.class)
        .hasMessageStartingWith("nothing answers at 127.0.0.1:99999, ");
  }

  @Test
  void withoutAnAddressAndALauncherThereIsNoCluster() {
    assertThat(ClusterAddress.use(null)).isFalse();
  }

  @Test
  void aPrivateClusterStartsWhenItIsAskedFor(@TempDir Path keeper) throws IOException {
    System.setProperty("nvrar.cli.keeper", keeper.toString());
    Files.writeString(keeper.resolve("answer"), "ready 127.0.0.1:30000\n");
    assertThat(ClusterAddress.use(null)).isTrue();
    assertThat(keeper.resolve("in")).hasContent("start\n");
    assertThat(System.getProperty("ray.address")).isEqualTo("127.0.0.1:30000");
    assertThat(System.getProperty("ray.node-ip")).isEqualTo("127.0.0.1");
  }

  @Test
  @Timeout(30)
  void aPrivateClusterWhoseKeeperHasEndedIsNotAwaited(@TempDir Path keeper) throws Exception {
    Process ended = new ProcessBuilder("true").start();
    ended.waitFor();
    System.setProperty("nvrar.cli.keeper", keeper.toString());
    System.setProperty("nvrar.cli.keeper.pid", Long.toString(ended.pid()));
    assertThatThrownBy(() -> ClusterAddress.use(null))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the process that keeps the Ray cluster has ended");
  }

  @Test
  void aPrivateClusterThatDoesNotStartGivesTheReason(@TempDir Path keeper) throws IOException {
    System.setProperty("nvrar.cli.keeper", keeper.toString());
    Files.writeString(
        keeper.resolve("answer"), "failed the Ray cluster did not start within 9 s\n");
    assertThatThrownBy(() -> ClusterAddress.use(null))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the Ray cluster did not start within 9 s");
  }
}
