package io.nvrar.it.containers;

import static io.nvrar.it.containers.ContainerCluster.HEAD;
import static io.nvrar.it.containers.ContainerCluster.SMALL;
import static io.nvrar.it.containers.ContainerCluster.worker;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A group of four actors, ranks 0 and 1 on the first worker and 2 and 3 on the second, of which
 * something breaks: what every rank and the driver see, after how long, and that another group, in
 * which fresh actors on the third worker take the places of the lost ones, sums right.
 */
@DockerTest(workers = 3)
class HostFaultsIT {

  private static final Logger LOG = LoggerFactory.getLogger(HostFaultsIT.class);

  private static final String FIRST = worker(1);
  private static final String SECOND = worker(2);
  private static final String THIRD = worker(3);
  private static final String HOSTS = "hosts=" + FIRST + "," + SECOND + "," + THIRD;

  /** How long a process is silent before it counts as lost. */
  private static final long LIMIT_MILLIS = 3_000;

  /** For whoever is silent, or cut off: in which time after the limit all know. */
  private static final long KNOWN_MILLIS = 1_000;

  /** In which time JVMs that load the library for the first time say that they cannot. */
  private static final long REFUSED_MILLIS = 10_000;

  /** In which time after ranks are lost there is another group, with fresh actors. */
  private static final long REBUILT_MILLIS = 10_000;

  /** As long as fresh actors may start within it: where they take longer, so may all the rest. */
  private static final long STARTED_MILLIS = 4_000;

  /**
   * When something was done: the engine takes hundreds of milliseconds for it where the machine is
   * busy, of which a second at most is not counted.
   */
  private record Moment(long earliest, long latest) {

    static Moment of(Runnable call) {
      long earliest = System.currentTimeMillis();
      call.run();
      return new Moment(earliest, System.currentTimeMillis());
    }

    static Moment at(long millis) {
      return new Moment(millis, millis);
    }

    void assertFollowedBy(String what, long millis, long within) {
      assertThat(millis - earliest)
          .as("milliseconds until %s", what)
          .isBetween(0L, Math.min(latest - earliest, 1_000) + within);
    }
  }

  private static RunningDriver start(ContainerCluster cluster, String... arguments)
      throws InterruptedException {
    List<String> command = new ArrayList<>(List.of(HostFaultsProgram.class.getName()));
    command.add(arguments[0]);
    command.addAll(List.of(HOSTS, "limit=" + LIMIT_MILLIS));
    command.addAll(List.of(arguments).subList(1, arguments.length));
    RunningDriver driver = cluster.startDriver(command.toArray(String[]::new));
    driver.fact("running");
    return driver;
  }

  private static void log(List<Sight> sights, Moment begin) {
    for (Sight sight : sights) {
      LOG.info("after {} ms: {}", sight.millis() - begin.earliest(), sight);
    }
  }

  /** All of them name the same lost rank, in time. */
  private static void assertLost(
      List<Sight> sights, Moment begin, long within, String how, int... possible) {
    log(sights, begin);
    assertThat(sights)
        .allSatisfy(
            sight -> {
              assertThat(sight.kind()).isEqualTo("PeerLostException");
              assertThat(possible).contains(sight.lost());
              assertThat(sight.message())
                  .startsWith("rank " + sight.lost() + " (pid ")
                  .containsPattern(how);
              begin.assertFollowedBy("this was known", sight.millis(), within);
            });
    assertThat(sights.stream().map(Sight::lost).distinct()).hasSize(1);
  }

  private static Moment known(List<Sight> sights) {
    return Moment.at(sights.stream().mapToLong(Sight::millis).max().orElseThrow());
  }

  private static List<Sight> sights(Map<String, List<String>> facts, Predicate<Sight> which) {
    List<Sight> all = new ArrayList<>();
    for (String name : List.of("driver", "rank")) {
      facts.getOrDefault(name, List.of()).stream()
          .map(Sight::parse)
          .filter(which)
          .forEach(all::add);
    }
    return all;
  }

  /**
   * @param begin when the ranks were lost: if they are silent or cut off, when all knew
   */
  private static void assertRebuilt(Map<String, List<String>> facts, Moment begin, int ranks) {
    assertThat(facts.get("sum")).isEqualTo(Collections.nCopies(ranks, ""));
    long millis = Long.parseLong(Objects.requireNonNull(facts.get("rebuilt")).get(0));
    long started = Long.parseLong(Objects.requireNonNull(facts.get("fresh")).get(0));
    LOG.info(
        "after {} ms: another group has summed, fresh actors took {} ms of it",
        millis - begin.earliest(),
        started);
    assertThat(started).as("milliseconds in which fresh actors started").isLessThan(16_000L);
    long limit = REBUILT_MILLIS * Math.max(started, STARTED_MILLIS) / STARTED_MILLIS;
    begin.assertFollowedBy("another group had summed", millis, limit);
  }

  @Test
  void aHostThatIsKilledIsKnownToAllInASecond(ContainerCluster cluster) throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.WATCH, "victims=2,3");
    Moment begin = Moment.of(() -> cluster.kill(SECOND));
    Map<String, List<String>> facts = driver.end();
    List<Sight> all = sights(facts, sight -> true);
    assertThat(all).hasSize(3);
    assertLost(all, begin, KNOWN_MILLIS, "on host " + SECOND + "\\) was lost", 2, 3);
    assertRebuilt(facts, begin, 4);
    cluster.replace(SECOND);
  }

  @Test
  void aHostThatPausesForLessThanTheLimitIsNotLost(ContainerCluster cluster) throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.ENDURE, "millis=4000");
    Thread.sleep(500);
    cluster.pause(SECOND);
    Thread.sleep(LIMIT_MILLIS / 2);
    cluster.unpause(SECOND);
    Map<String, List<String>> facts = driver.end();
    assertThat(facts.get("wrong")).isEqualTo(Collections.nCopies(4, ""));
    assertThat(facts.get("failure")).containsExactly("null");
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
  }

  @Test
  void aHostThatPausesForLongerIsLostAndGoodAgainAfterwards(ContainerCluster cluster)
      throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.WATCH, "victims=2,3", "heals=true");
    Moment begin = Moment.of(() -> cluster.pause(SECOND));
    driver.fact("rebuilt");
    Moment again = Moment.of(() -> cluster.unpause(SECOND));
    Map<String, List<String>> facts = driver.end();
    List<Sight> awake = sights(facts, sight -> sight.rank() < 2);
    assertThat(awake).hasSize(3);
    assertLost(awake, begin, LIMIT_MILLIS + KNOWN_MILLIS, "silent for more than 3 s", 2, 3);
    assertRebuilt(facts, known(awake), 4);
    log(sights(facts, sight -> sight.rank() >= 2), again);
    assertThat(sights(facts, sight -> sight.rank() >= 2))
        .hasSize(2)
        .allSatisfy(
            sight -> {
              assertThat(sight.kind()).isEqualTo("PeerLostException");
              again.assertFollowedBy("this was known", sight.millis(), KNOWN_MILLIS);
            });
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
  }

  @Test
  void aHostWhoseNetworkIsCutIsLostOnBothSidesAndGoodAgainAfterwards(ContainerCluster cluster)
      throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.WATCH, "victims=2,3", "heals=true");
    String address = cluster.addressOf(SECOND);
    Moment begin = Moment.of(() -> cluster.unplug(SECOND));
    driver.fact("rebuilt");
    cluster.plugIn(SECOND, address);
    Map<String, List<String>> facts = driver.end();
    List<Sight> here = sights(facts, sight -> sight.rank() < 2);
    assertThat(here).hasSize(3);
    assertLost(here, begin, LIMIT_MILLIS + KNOWN_MILLIS, "on host " + SECOND, 2, 3);
    List<Sight> there = sights(facts, sight -> sight.rank() >= 2);
    assertThat(there).hasSize(2);
    assertLost(there, begin, LIMIT_MILLIS + KNOWN_MILLIS, "on host " + FIRST, 0, 1);
    assertRebuilt(facts, known(here), 4);
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
  }

  @Test
  void anActorThatIsKilledIsKnownToAllInASecond(ContainerCluster cluster) throws Exception {
    killActor(cluster, 3, SECOND);
  }

  @Test
  void aRankZeroThatIsKilledInACallIsKnownToAllInASecond(ContainerCluster cluster)
      throws Exception {
    killActor(cluster, 0, FIRST);
  }

  private static void killActor(ContainerCluster cluster, int rank, String host) throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.WATCH, "victims=" + rank);
    String pid = pids(driver).get(rank);
    Moment begin = Moment.at(signal(cluster, host, "9", pid));
    Map<String, List<String>> facts = driver.end();
    List<Sight> all = sights(facts, sight -> true);
    assertThat(all).hasSize(4);
    assertLost(all, begin, KNOWN_MILLIS, "\\(pid " + pid + " on host " + host, rank);
    assertRebuilt(facts, begin, 4);
  }

  /** Returns when it was sent; entering a container can take a second where the machine is busy. */
  private static long signal(ContainerCluster cluster, String host, String name, String pid)
      throws Exception {
    return Long.parseLong(cluster.sh(host, "date +%s%3N; kill -" + name + " " + pid).strip());
  }

  private static List<String> pids(RunningDriver driver) {
    return Objects.requireNonNull(driver.facts().get("pid"));
  }

  @Test
  void anActorThatIsStoppedIsLostAfterTheLimitAndGoodAgainAfterwards(ContainerCluster cluster)
      throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.WATCH, "victims=3", "heals=true");
    String pid = pids(driver).get(3);
    Moment begin = Moment.at(signal(cluster, SECOND, "STOP", pid));
    driver.fact("rebuilt");
    Moment again = Moment.at(signal(cluster, SECOND, "CONT", pid));
    Map<String, List<String>> facts = driver.end();
    List<Sight> awake = sights(facts, sight -> sight.rank() < 3);
    assertThat(awake).hasSize(4);
    assertLost(awake, begin, LIMIT_MILLIS + KNOWN_MILLIS, "silent for more than 3 s", 3);
    assertRebuilt(facts, known(awake), 4);
    log(sights(facts, sight -> sight.rank() == 3), again);
    assertThat(sights(facts, sight -> sight.rank() == 3))
        .hasSize(1)
        .allSatisfy(
            sight -> {
              assertThat(sight.kind()).isEqualTo("PeerLostException");
              again.assertFollowedBy("this was known", sight.millis(), KNOWN_MILLIS);
            });
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
  }

  @Test
  void aRankZeroThatIsKilledWhileTheGroupIsMadeFailsItAtOnce(ContainerCluster cluster)
      throws Exception {
    RunningDriver driver = start(cluster, HostFaultsProgram.JOIN, "victims=0", "heals=true");
    String first = pids(driver).get(0);
    String last = pids(driver).get(3);
    signal(cluster, SECOND, "STOP", last);
    cluster.sh(HEAD, "touch " + HostFaultsProgram.GO);
    Thread.sleep(1_500); // all others have come to rank 0
    long killed = signal(cluster, FIRST, "9", first);
    signal(cluster, SECOND, "CONT", last);
    // The driver waits for rank 3 too, which can leave only now.
    Moment begin = new Moment(killed, System.currentTimeMillis());
    Sight seen = Sight.parse(driver.fact("driver"));
    Map<String, List<String>> facts = driver.end();
    log(List.of(seen), begin);
    assertThat(seen.message()).contains("rank 0");
    begin.assertFollowedBy("the group was refused", seen.millis(), 2 * KNOWN_MILLIS);
    assertRebuilt(facts, begin, 4);
    assertThat(facts.get("initialized")).isEqualTo(Collections.nCopies(3, "false"));
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(3, ""));
    cluster.sh(HEAD, "rm " + HostFaultsProgram.GO);
  }

  @Test
  void actorsThatOutliveTheirKilledDriverKnowItInASecond(ContainerCluster cluster)
      throws Exception {
    RunningDriver driver =
        start(cluster, HostFaultsProgram.DETACHED, "hosts=" + FIRST + "," + SECOND);
    String pid = pids(driver).get(0);
    Moment begin = Moment.at(signal(cluster, HEAD, "9", pid));
    Thread.sleep(2 * KNOWN_MILLIS);
    Map<String, List<String>> facts =
        Facts.of(
            cluster
                .driver(
                    HostFaultsProgram.class.getName(),
                    HostFaultsProgram.AFTERWARDS,
                    "hosts=" + FIRST + "," + SECOND)
                .getStdout());
    log(sights(facts, sight -> true), begin);
    assertThat(sights(facts, sight -> true))
        .hasSize(4)
        .allSatisfy(
            sight -> {
              assertThat(sight.message())
                  .contains("the driver (pid " + pid + " on host " + HEAD + ") was lost");
              begin.assertFollowedBy("this was known", sight.millis(), KNOWN_MILLIS);
            });
    assertThat(facts.get("sum")).isEqualTo(Collections.nCopies(4, ""));
  }

  /** With the head the driver is lost, and Ray's own service for all. */
  @Test
  void aHeadThatIsKilledIsKnownToAllInASecondAndAnotherClusterCanBeMade(ContainerCluster cluster)
      throws Exception {
    start(cluster, HostFaultsProgram.WATCH);
    Moment begin = Moment.of(() -> cluster.kill(HEAD));
    Thread.sleep(2 * KNOWN_MILLIS);
    List<Sight> all = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      all.add(Sight.parse(cluster.read(rank < 2 ? FIRST : SECOND, Witness.file(rank))));
    }
    log(all, begin);
    assertThat(all)
        .allSatisfy(
            sight -> {
              assertThat(sight.message())
                  .containsPattern("the driver \\(pid \\d+ on host " + HEAD + "\\) was lost");
              begin.assertFollowedBy("this was known", sight.millis(), KNOWN_MILLIS);
            });
    cluster.restart();
    Map<String, List<String>> facts = start(cluster, HostFaultsProgram.ENDURE, "millis=500").end();
    assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
  }

  @Test
  void aFullDiskCostsTheFlightRecordAndNothingElse(ContainerCluster cluster) throws Exception {
    for (String host : cluster.workers()) {
      fill(cluster, host);
    }
    RunningDriver driver =
        start(cluster, HostFaultsProgram.WATCH, "victims=3", "jvm=-Dnvrar.flight.dir=" + SMALL);
    String pid = pids(driver).get(3);
    Moment begin = Moment.at(signal(cluster, SECOND, "9", pid));
    Map<String, List<String>> facts = driver.end();
    List<Sight> all = sights(facts, sight -> true);
    assertThat(all)
        .hasSize(4)
        // The driver, on a host of its own, cannot know that it was not written.
        .allSatisfy(
            sight ->
                assertThat(
                        sight.message().replaceFirst(", unless it could not be written: .+$", ""))
                    .doesNotContainPattern("\\.jsonl$"));
    assertLost(all, begin, KNOWN_MILLIS, "\\(pid " + pid + " on host " + SECOND, 3);
    assertRebuilt(facts, begin, 4);
    for (String host : List.of(FIRST, SECOND)) {
      assertThat(cluster.sh(host, "cat /tmp/ray/session_latest/logs/java-worker*"))
          .contains("The flight record of group 'fault' is not written: ");
    }
    for (String host : cluster.workers()) {
      empty(cluster, host);
    }
  }

  @Test
  void aFullDiskWhereTheLibraryGoesFailsTheGroupAndTheSameProcessesAreGoodOnceThereIsRoom(
      ContainerCluster cluster) throws Exception {
    fill(cluster, SECOND);
    try {
      RunningDriver driver =
          start(
              cluster,
              HostFaultsProgram.AGAIN,
              String.format(
                  Locale.ROOT, "jvm=-Dnvrar.native.cache=%s,-Djava.io.tmpdir=%s", SMALL, SMALL));
      long begin = Long.parseLong(driver.fact("running"));
      Sight seen = Sight.parse(driver.fact("driver"));
      log(List.of(seen), Moment.at(begin));
      assertThat(seen.message())
          .contains("it cannot be extracted there (No space left on device): " + SMALL);
      assertThat(seen.millis() - begin)
          .as("milliseconds, and not until the join's limit")
          .isBetween(0L, REFUSED_MILLIS);
      empty(cluster, SECOND);
      Thread.sleep(1_500); // a process tries to load the library once in a second at most
      cluster.sh(HEAD, "touch " + HostFaultsProgram.GO);
      Map<String, List<String>> facts = driver.end();
      assertThat(facts.get("other"))
          .as("what the ranks say of each other")
          .anySatisfy(
              other ->
                  assertThat(Sight.parse(other).message())
                      .containsPattern(
                          String.format(
                              Locale.ROOT,
                              "rank [23] \\(pid \\d+ on host %s\\) could not join group 'fault': .*No space left",
                              SECOND)));
      assertThat(facts.get("initialized")).isEqualTo(Collections.nCopies(4, "false"));
      assertThat(facts.get("healed")).isEqualTo(Collections.nCopies(4, ""));
      cluster.sh(HEAD, "rm " + HostFaultsProgram.GO);
    } finally {
      empty(cluster, SECOND);
    }
  }

  private static void fill(ContainerCluster cluster, String host) throws Exception {
    cluster.sh(host, "dd if=/dev/zero of=" + SMALL + "/full bs=1k 2> /dev/null || true");
  }

  private static void empty(ContainerCluster cluster, String host) throws Exception {
    cluster.sh(host, "rm -f " + SMALL + "/full");
  }
}
