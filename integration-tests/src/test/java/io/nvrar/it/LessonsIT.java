package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.cli.Main;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The examples' commands as {@code bin/nvrar} starts them. */
@RayTest
class LessonsIT {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  @Test
  void helloPrintsTheSumOfEveryRank(RayCluster cluster) throws Exception {
    try (ForkedJvm jvm = hello(cluster, "--ranks", "3")) {
      String leftByDriver = jvm.awaitLine("rank 0 of 3: gave 1, the sum is 6") + driverFiles(jvm);
      assertThat(jvm.awaitEnd(LIMIT))
          .startsWith("rank 1 of 3: gave 2, the sum is 6", "rank 2 of 3: gave 3, the sum is 6");
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
    }
  }

  @Test
  void helloWithMoreRanksThanRoomEndsWithOneSentence(RayCluster cluster) throws Exception {
    try (ForkedJvm jvm = hello(cluster, "--ranks", "9")) {
      String sentence = jvm.awaitLine("nvrar: ");
      String leftByDriver = driverFiles(jvm);
      assertThat(sentence).startsWith("no node has room for 9 actors of 1 GPU each");
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isEqualTo(1);
      DriverFiles.delete(leftByDriver);
    }
  }

  @Test
  void helloProcessesPrintsTheSumOfEveryRank() throws Exception {
    try (ForkedJvm jvm = ForkedJvm.plain(Main.class.getName(), "hello-processes")) {
      // Beside what SLF4J says of the logger that the tests' class path lacks.
      List<String> lines =
          jvm.awaitEnd(LIMIT).stream().filter(line -> line.startsWith("rank ")).toList();
      assertThat(lines).hasSize(4);
      for (int rank = 0; rank < 4; rank++) {
        assertThat(lines.get(rank))
            .matches(
                "rank %d of 4, process \\d+: gave %d, the sum is 10".formatted(rank, rank + 1));
      }
      assertThat(jvm.exitCode()).isZero();
    }
  }

  @Test
  void theMembersOfAKilledLauncherEnd() throws Exception {
    List<ProcessHandle> members;
    try (ForkedJvm jvm = ForkedJvm.plain(Main.class.getName(), "hello-processes", "--ranks", "8")) {
      await()
          .atMost(LIMIT)
          .pollInterval(Duration.ofMillis(20))
          .until(() -> ProcessHandle.of(jvm.pid()).orElseThrow().children().count() == 8);
      members = ProcessHandle.of(jvm.pid()).orElseThrow().children().toList();
      jvm.kill();
    }
    await().atMost(LIMIT).until(() -> members.stream().noneMatch(ProcessHandle::isAlive));
  }

  private static ForkedJvm hello(RayCluster cluster, String... options) throws IOException {
    List<String> command =
        new ArrayList<>(List.of(Main.class.getName(), "hello", "--address", cluster.address()));
    command.addAll(Arrays.asList(options));
    return ForkedJvm.driver(cluster, command.toArray(String[]::new));
  }

  private static String driverFiles(ForkedJvm jvm) throws IOException {
    return DriverFiles.of(jvm.pid());
  }
}
