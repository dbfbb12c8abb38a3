package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.standalone.Groups;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.Main;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** The examples' commands as {@code bin/nvrar} starts them. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class LessonsContract {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  private final String place;
  private final String backend;
  private int gpus;

  /**
   * The tests on one backend.
   *
   * @param place a pattern of what the members say of where they are
   */
  LessonsContract(String place, String backend) {
    this.place = place;
    this.backend = backend;
  }

  @BeforeAll
  void countGpus(RayCluster cluster) {
    gpus = cluster.gpus();
  }

  /** As many as there are GPUs, at most. */
  private int ranks(int most) {
    return Math.min(most, gpus);
  }

  @Test
  void helloPrintsTheSumOfEveryRank(RayCluster cluster) throws Exception {
    int ranks = ranks(3);
    assertThat(ranksOf(onRay(cluster, "hello", "--ranks", "" + ranks)))
        .zipSatisfy(
            IntStream.range(0, ranks).boxed().toList(),
            (line, rank) ->
                assertThat(line)
                    .matches(
                        String.format(
                            Locale.ROOT,
                            "rank %d of %d on %s: gave %d, the sum is %d",
                            rank,
                            ranks,
                            place,
                            rank + 1,
                            sum(ranks))));
  }

  @Test
  void helloHasFourRanksOrOneForEachGpu(RayCluster cluster) throws Exception {
    assertThat(ranksOf(onRay(cluster, "hello"))).hasSize(ranks(4));
  }

  /** One more rank than GPUs; with eight of them, that is also more than a host may have. */
  @Test
  void helloWithMoreRanksThanRoomEndsWithOneSentence(RayCluster cluster) throws Exception {
    int tooMany = gpus + 1;
    boolean limited = tooMany > Groups.MAX_NODE_SIZE;
    try (ChildJvm jvm = driver(cluster, "hello", "--ranks", String.valueOf(tooMany))) {
      String sentence = jvm.awaitLine("nvrar: ");
      String leftByDriver = limited ? "" : DriverFiles.of(jvm.pid());
      assertThat(sentence)
          .startsWith(
              limited
                  ? "--ranks is " + tooMany + ", must be 1 to " + Groups.MAX_NODE_SIZE
                  : "no node has room for " + tooMany + " actors of 1 GPU each");
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isEqualTo(limited ? 2 : 1);
      DriverFiles.delete(leftByDriver);
    }
  }

  @Test
  void helloProcessesPrintsTheSumOfEveryRank() throws Exception {
    int ranks = ranks(4);
    try (ChildJvm jvm = plain("hello-processes")) {
      // Beside what SLF4J says of the logger that the tests' class path lacks.
      List<String> lines =
          jvm.awaitEnd(LIMIT).stream().filter(line -> line.startsWith("rank ")).toList();
      assertThat(lines)
          .zipSatisfy(
              IntStream.range(0, ranks).boxed().toList(),
              (line, rank) ->
                  assertThat(line)
                      .matches(
                          String.format(
                              Locale.ROOT,
                              "rank %d of %d on %s, process \\d+: gave %d, the sum is %d",
                              rank,
                              ranks,
                              place,
                              rank + 1,
                              sum(ranks))));
      assertThat(jvm.exitCode()).isZero();
    }
  }

  @Test
  void theMembersOfAKilledLauncherEnd() throws Exception {
    int ranks = ranks(8);
    List<ProcessHandle> members;
    try (ChildJvm jvm = plain("hello-processes", "--ranks", "" + ranks)) {
      await()
          .atMost(LIMIT)
          .pollInterval(Duration.ofMillis(20))
          .until(() -> ProcessHandle.of(jvm.pid()).orElseThrow().children().count() == ranks);
      members = ProcessHandle.of(jvm.pid()).orElseThrow().children().toList();
      jvm.kill();
    }
    await().atMost(LIMIT).until(() -> members.stream().noneMatch(ProcessHandle::isAlive));
  }

  @Test
  void graphReplaysLayersWhoseResultsAreRight(RayCluster cluster) throws Exception {
    int ranks = ranks(4);
    Pattern line =
        Pattern.compile(
            "rank \\d of "
                + ranks
                + " on "
                + place
                + ": 20 replays of 160 all-reduces with residual and RMSNorm of 4096 float32, every result right; [0-9.]+ us each, [0-9.]+ us without the graph");
    List<String> lines = ranksOf(onRay(cluster, "graph", "--ranks", "" + ranks, "--replays", "20"));
    lines.forEach(System.out::println);
    assertThat(lines).hasSize(ranks).allMatch(printed -> line.matcher(printed).matches());
  }

  /** The lesson compares residuals exactly. */
  @Test
  void graphRefusesMoreCallsThanFloat32AddsExactly(RayCluster cluster) throws Exception {
    int largestSum = IntStream.range(0, Groups.MAX_NODE_SIZE).map(rank -> rank + 8).sum();
    int most = (1 << 24) / largestSum;
    try (ChildJvm jvm = driver(cluster, "graph", "--calls", "" + (most + 1))) {
      assertThat(jvm.awaitLine("nvrar: "))
          .isEqualTo(
              String.format(
                  Locale.ROOT,
                  "--calls is %d, must be 1 to %d, for float32 to hold the residuals exactly",
                  most + 1,
                  most));
      jvm.awaitEnd(LIMIT);
      assertThat(jvm.exitCode()).isEqualTo(2);
    }
  }

  @Test
  void hostsPrintsTheSumOfEveryRankAndWhereItIs(RayCluster cluster) throws Exception {
    List<String> output = onRay(cluster, "hosts", "--ranks", "3", "--nodes", "1");
    assertThat(ranksOf(output))
        .hasSize(3)
        .allMatch(line -> line.matches("rank \\d of 3 on \\S+: gave \\d, the sum is 6"));
    assertThat(output)
        .contains("healthy")
        .filteredOn(line -> line.startsWith("  rank "))
        .hasSize(3)
        .allMatch(line -> line.contains("allReduce #1 float32[1] SUM"));
  }

  private static int sum(int ranks) {
    return ranks * (ranks + 1) / 2;
  }

  private static List<String> ranksOf(List<String> output) {
    return output.stream().filter(line -> line.startsWith("rank ")).toList();
  }

  /** All that a command prints that ends well. */
  private List<String> onRay(RayCluster cluster, String... command) throws Exception {
    try (ChildJvm jvm = driver(cluster, command)) {
      List<String> lines = new ArrayList<>();
      lines.add("rank " + jvm.awaitLine("rank "));
      String leftByDriver = DriverFiles.of(jvm.pid());
      lines.addAll(jvm.awaitEnd(LIMIT));
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
      return lines;
    }
  }

  private ChildJvm driver(RayCluster cluster, String... command) throws IOException {
    List<String> line = withBackend(command);
    line.addAll(List.of("--address", cluster.address()));
    return ForkedJvm.driver(cluster, line.toArray(String[]::new));
  }

  private ChildJvm plain(String... command) throws IOException {
    return ForkedJvm.plain(withBackend(command).toArray(String[]::new));
  }

  private List<String> withBackend(String... command) {
    List<String> line = new ArrayList<>(List.of(Main.class.getName()));
    line.addAll(Arrays.asList(command));
    line.addAll(List.of("--backend", backend));
    return line;
  }
}
