package io.nvrar.examples.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnJre;
import org.junit.jupiter.api.condition.JRE;
import org.junit.jupiter.api.io.TempDir;

/** On a cluster on this host, whose executors are processes of their own. */
@EnabledOnJre(
    value = JRE.JAVA_17,
    disabledReason = "Spark 3.5 runs on Java 17 and older, ray-nvrar on 17 and newer")
@Timeout(120)
class BarrierGroupIT {
  private static final int EXECUTORS = 3;
  private static final int CORES = 2;
  private static final int LENGTH = 10_000;
  private static final int ROUNDS = 50;
  private static final int FAILS_IN_ROUND = 20;

  private static JavaSparkContext spark;
  private static final List<String> stageFailures = new CopyOnWriteArrayList<>();

  /** What a task got: serializable by what it consists of. */
  record Outcome(int rank, int worldSize, String group, int attempt, long pid, boolean right)
      implements Serializable {}

  @BeforeAll
  static void start() throws IOException {
    List<String> jars = new ArrayList<>();
    for (String directory : List.of("target", "target/lib")) {
      try (DirectoryStream<Path> found = Files.newDirectoryStream(Path.of(directory), "*.jar")) {
        found.forEach(jar -> jars.add(jar.toString()));
      }
    }
    spark =
        new JavaSparkContext(
            new SparkConf()
                .setMaster(String.format(Locale.ROOT, "local-cluster[%d,%d,512]", EXECUTORS, CORES))
                .setAppName("test")
                .set("spark.executor.memory", "512m")
                // Wait for all executors, because a barrier stage needs them all at once.
                .set("spark.cores.max", Integer.toString(EXECUTORS * CORES))
                .set("spark.scheduler.minRegisteredResourcesRatio", "1.0")
                // Executors that cannot start end the test.
                .set("spark.deploy.maxExecutorRetries", "3")
                // What failed calls and killed members leave must not go to /tmp.
                .set(
                    "spark.executor.extraJavaOptions",
                    String.format(
                        Locale.ROOT,
                        "-Dnvrar.flight.dir=%1$s/flight -Dnvrar.top.dir=%1$s/top",
                        Path.of("target").toAbsolutePath()))
                .set("spark.ui.enabled", "false")
                .setJars(jars.toArray(new String[0])));
    spark
        .sc()
        .addSparkListener(
            new SparkListener() {
              @Override
              public void onStageCompleted(SparkListenerStageCompleted stage) {
                stage.stageInfo().failureReason().foreach(stageFailures::add);
              }
            });
  }

  @AfterAll
  static void stop() {
    spark.stop();
  }

  @Test
  void everyTaskGetsTheSumOnAllExecutors(@TempDir Path directory) {
    String notes = directory.toString();
    List<Outcome> outcomes =
        BarrierStage.run(spark, EXECUTORS * CORES, () -> sums(notes, () -> {}));

    assertRight(outcomes, EXECUTORS * CORES);
    assertThat(outcomes.stream().map(Outcome::pid).distinct())
        .hasSize(EXECUTORS)
        .doesNotContain(ProcessHandle.current().pid());
    assertThat(BarrierStage.run(spark, EXECUTORS, VectorSum::task))
        .hasSize(EXECUTORS)
        .allMatch(line -> line.endsWith("the sum is 6"));
  }

  @Test
  void anExecutorKilledInACallIsNamedByAllOthersAndSparkRepeatsTheStageInANewGroup(
      @TempDir Path directory) throws IOException {
    String notes = directory.toString();
    List<Outcome> outcomes =
        BarrierStage.run(
            spark,
            EXECUTORS,
            () ->
                sums(
                    notes,
                    () -> {
                      String pid = Long.toString(ProcessHandle.current().pid());
                      Files.writeString(Path.of(notes, "killed"), pid);
                      new ProcessBuilder("kill", "-9", pid).start().waitFor();
                    }));

    assertRight(outcomes, EXECUTORS);
    assertThat(outcomes).extracting(Outcome::attempt).containsOnly(1);
    assertThat(stageFailures).anyMatch(reason -> reason.contains("barrier task"));
    String lost = "rank 1 (pid " + Files.readString(directory.resolve("killed")) + " on host ";
    for (int survivor : new int[] {0, 2}) {
      assertThat(directory.resolve(Integer.toString(survivor)))
          .content()
          .startsWith("io.nvrar.PeerLostException: " + lost)
          .contains("was lost", "in allReduce #" + (FAILS_IN_ROUND + 1));
    }

    assertRight(BarrierStage.run(spark, EXECUTORS, () -> sums(notes, () -> {})), EXECUTORS);
  }

  @Test
  void aTaskThatThrowsGivesAllOthersItsReason(@TempDir Path directory) {
    String notes = directory.toString();
    List<Outcome> outcomes =
        BarrierStage.run(
            spark,
            EXECUTORS,
            () ->
                sums(
                    notes,
                    () -> {
                      throw new IOException("no row 20");
                    }));

    assertRight(outcomes, EXECUTORS);
    assertThat(stageFailures).anyMatch(reason -> reason.contains("no row 20"));
    for (int survivor : new int[] {0, 2}) {
      assertThat(directory.resolve(Integer.toString(survivor)))
          .content()
          .contains("rank 1 ", "aborted group", "no row 20");
    }
  }

  /** What happens to rank 1 in the first attempt of its stage. */
  @FunctionalInterface
  interface Accident extends Serializable {
    void happen() throws Exception;
  }

  /** In a task: as many sums as there are rounds. Writes what ends them to a file of this rank. */
  private static Outcome sums(String notes, Accident accident) throws Exception {
    BarrierTaskContext task = BarrierTaskContext.get();
    boolean mine = task.partitionId() == 1 && task.stageAttemptNumber() == 0;
    try {
      return BarrierGroup.run(
          "test",
          GroupConfig.defaults(),
          group -> {
            boolean right = true;
            for (int round = 0; round < ROUNDS; round++) {
              if (mine && round == FAILS_IN_ROUND) {
                accident.happen();
              }
              right &= sumIsRight(group, round);
            }
            return new Outcome(
                group.rank(),
                group.worldSize(),
                group.name(),
                task.stageAttemptNumber(),
                ProcessHandle.current().pid(),
                right);
          });
    } catch (Exception e) {
      Files.writeString(Path.of(notes, Integer.toString(task.partitionId())), e.toString());
      throw e;
    }
  }

  /** Whole numbers below 2^24, so any order of the sum gives the same. */
  private static boolean sumIsRight(CollectiveGroup group, int round) {
    float[] vector = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      vector[i] = (group.rank() + 1) * (i % 100) + round;
    }
    VectorSum.sum(group, vector);
    int n = group.worldSize();
    return IntStream.range(0, LENGTH)
        .allMatch(i -> vector[i] == n * (n + 1) / 2 * (i % 100) + n * round);
  }

  private static void assertRight(List<Outcome> outcomes, int tasks) {
    assertThat(outcomes).extracting(Outcome::rank).containsExactlyElementsOf(ranks(tasks));
    assertThat(outcomes).allMatch(Outcome::right).allMatch(o -> o.worldSize() == tasks);
    assertThat(outcomes.stream().map(Outcome::group).distinct())
        .singleElement()
        .asString()
        .endsWith("." + outcomes.get(0).attempt());
  }

  private static List<Integer> ranks(int tasks) {
    return IntStream.range(0, tasks).boxed().collect(Collectors.toList());
  }
}
