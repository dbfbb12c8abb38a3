package io.nvrar.it.containers;

import static io.nvrar.it.containers.ContainerCluster.HEAD;
import static io.nvrar.it.containers.ContainerCluster.WORKER;
import static org.assertj.core.api.Assertions.assertThat;

import com.github.dockerjava.api.DockerClient;
import io.nvrar.PeerLostException;
import io.nvrar.it.actors.Collective;
import io.nvrar.tools.Main;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.testcontainers.containers.Container.ExecResult;

/** Actors on the hosts of a cluster that has two. */
@DockerTest(workers = 1, actorsOnHead = true)
class HostsIT {

  private static final List<String> RIGHT = Collections.nCopies(4, "");

  @ParameterizedTest
  @ValueSource(strings = {HEAD, WORKER})
  void everyCollectiveIsRightWithAllActorsOnOneHost(String host, ContainerCluster cluster)
      throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.COLLECTIVES, host));
    assertThat(facts.remove("host")).isEqualTo(Collections.nCopies(4, host));
    assertThat(facts)
        .containsOnlyKeys(Arrays.stream(Collective.values()).map(Collective::name).toList());
    assertThat(facts).allSatisfy((collective, wrong) -> assertThat(wrong).isEqualTo(RIGHT));
  }

  /** Rank 0, which holds the rendezvous, is with the driver once, and once it is not. */
  @Tag("basic")
  @ParameterizedTest
  @CsvSource({HEAD + ", " + WORKER, WORKER + ", " + HEAD})
  void everyCollectiveIsRightInAGroupThatSpansTheHosts(
      String first, String second, ContainerCluster cluster) throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.SPAN, first, second));
    assertThat(facts.remove("half"))
        .as("those of higher rank first, and both of either host")
        .containsExactly(
            "rank 1 of 2 in span/0 has 5",
            "rank 1 of 2 in span/1 has 10",
            "rank 0 of 2 in span/0 has 5",
            "rank 0 of 2 in span/1 has 10");
    assertThat(facts.remove("mixed"))
        .as("of ranks 3, 0, 2 and 1: those of a host together, in this order")
        .containsExactly(
            "rank 2 of 4 in span/3,0,2,1 has 15",
            "rank 3 of 4 in span/3,0,2,1 has 15",
            "rank 1 of 4 in span/3,0,2,1 has 15",
            "rank 0 of 4 in span/3,0,2,1 has 15");
    assertThat(facts.remove("created"))
        .as("milliseconds in which the group of 4 was made, the first time by cold JVMs")
        .satisfiesExactly(
            millis -> assertThat(Integer.parseInt(millis)).isLessThan(10_000),
            millis -> assertThat(Integer.parseInt(millis)).isLessThan(3_000));
    assertThat(facts.remove("health"))
        .isEqualTo(Collections.nCopies(4, List.of(first, first, second, second).toString()));
    assertThat(facts.remove("sequence"))
        .as("what every rank knows of every rank")
        .hasSize(16)
        .doesNotContain("0")
        .matches(all -> all.stream().distinct().count() == 1);
    assertThat(facts.remove("link"))
        .as("two of each rank, to those of the other host")
        .hasSize(16)
        .satisfies(
            all ->
                assertThat(all.stream().filter(link -> !link.equals("null")))
                    .hasSize(8)
                    .allMatch(link -> link.matches("[0-9.]+:[0-9]+ to [0-9.]+:[0-9]+, open")));
    assertThat(facts)
        .containsOnlyKeys(Arrays.stream(Collective.values()).map(Collective::name).toList());
    assertThat(facts).allSatisfy((collective, wrong) -> assertThat(wrong).isEqualTo(RIGHT));
  }

  @ParameterizedTest
  @CsvSource({HEAD + ", " + WORKER, WORKER + ", " + HEAD})
  void ranksOfAHostThatAreApartAreRefusedInASentenceAndNothingStaysBehind(
      String first, String second, ContainerCluster cluster) throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.APART, first, second));
    assertThat(facts.get("refused"))
        .hasSize(HostsProgram.REFUSALS)
        .containsOnly(
            String.format(
                Locale.ROOT,
                "group 'span' has ranks of one host apart: ranks 0, 2 on %s, ranks 1, 3 on %s; the ranks of a host must be consecutive, so list the members in the order 0, 2, 1, 3",
                first,
                second));
    assertThat(facts.get("initialized")).isEqualTo(Collections.nCopies(4, "false"));
    assertThat(facts.get("held")).containsExactly("");
    assertThat(facts.get("sum"))
        .as("the name, before and after")
        .isEqualTo(Collections.nCopies(8, ""));
    assertThat(facts).containsOnlyKeys("refused", "initialized", "held", "sum");
  }

  @Tag("basic")
  @ParameterizedTest
  @CsvSource({HEAD + ", " + WORKER, WORKER + ", " + HEAD})
  void anActorThatIsKilledEndsTheCallsOnBothHostsInASecondAndTheRestCanGoOn(
      String first, String second, ContainerCluster cluster) throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.LOSS, first, second));
    String pid = Objects.requireNonNull(facts.remove("pid")).get(0);
    assertThat(facts.remove("thrown"))
        .as("by the other actors, and to the driver: %s", facts)
        .isEqualTo(Collections.nCopies(4, PeerLostException.class.getName()));
    assertThat(facts.remove("lost"))
        .isEqualTo(
            Collections.nCopies(4, String.format(Locale.ROOT, "rank 3, %s, %s", second, pid)));
    assertThat(facts.remove("message"))
        .allSatisfy(
            message ->
                assertThat(message)
                    .startsWith(
                        String.format(
                            Locale.ROOT,
                            "rank 3 (pid %s on host %s) was lost: connection closed",
                            pid,
                            second)));
    assertThat(Integer.parseInt(Objects.requireNonNull(facts.remove("millis")).get(0)))
        .isLessThan(1_000);
    assertThat(facts.remove("sum")).isEqualTo(Collections.nCopies(3, ""));
    assertThat(facts).isEmpty();
  }

  @Tag("basic")
  @Test
  void actorsAreDividedAmongTheHostsAsTheirOptionsSay(ContainerCluster cluster) throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.NODES));
    assertThat(facts.remove("sum"))
        .as("of groups of 4, 5, 3, 6 and 4 actors")
        .isEqualTo(Collections.nCopies(22, ""));
    assertThat(facts.remove("runs"))
        .as("how many consecutive actors are on a host")
        .containsExactly("[2, 2]", "[3, 2]", "[3]", "[3, 3]", "[2, 2]");
    assertThat(Objects.requireNonNull(facts.remove("refused")).get(0))
        .startsWith(
            "there is no room on 3 nodes for 3 actors of 1 GPU each: the cluster has 4 GPU");
    assertThat(facts).isEmpty();
  }

  /** The ranks of the worker find nobody at the addresses of the head's, which are loopback. */
  @Test
  void whatCannotBeAGroupOverHostsIsRefusedInASentenceWithinItsLimit(ContainerCluster cluster)
      throws Exception {
    Map<String, List<String>> facts =
        facts(cluster.driver(HostsProgram.class.getName(), HostsProgram.REFUSED, HEAD, WORKER));
    assertThat(facts.remove("nowhere"))
        .singleElement()
        .asString()
        .as("whichever end tells")
        .containsPattern(
            "rank [23].* (could not reach|has not reached) rank [01] at 127.0.0.1:[0-9]+")
        .contains("127.0.0.1 is a loopback address, which leads every host to itself");
    assertThat(facts.remove("absent"))
        .singleElement()
        .asString()
        .containsPattern(
            "links.networkInterface is '203.0.113.0/24', but this host has no such address; it");
    assertThat(facts.remove("ports"))
        .singleElement()
        .asString()
        .containsPattern("cannot listen for ranks on other hosts at [0-9.]+, ports 7000 to 7000: ");
    assertThat(facts.remove("nodes"))
        .singleElement()
        .asString()
        .contains("spans hosts head and worker1", "gpusPerNode is 2", "must be 0");
    assertThat(facts.remove("millis"))
        .allSatisfy(millis -> assertThat(Integer.parseInt(millis)).isLessThan(6_000));
    assertThat(facts.remove("sum"))
        .as("before, and encrypted")
        .isEqualTo(Collections.nCopies(8, ""));
    assertThat(facts).isEmpty();
  }

  /** The second is what a router says that knows no route to the host. */
  @ParameterizedTest
  @CsvSource({
    "DROP, no answer",
    "REJECT --reject-with icmp-host-unreachable, No route to host",
  })
  void aFirewallThatDropsPacketsOrAMissingRouteEndsTheJoinInTimeAndIsNamed(
      String target, String why, ContainerCluster cluster) throws Exception {
    int first = HostsProgram.FIRST_PORT;
    ContainerCluster.Plug wall = cluster.wall(HEAD, first, first + 3, target);
    RunningDriver driver;
    try {
      driver = cluster.startDriver(HostsProgram.class.getName(), HostsProgram.WALLED, HEAD, WORKER);
      driver.fact("millis");
    } finally {
      wall.in();
    }
    Map<String, List<String>> facts = openAndEnd(cluster, driver);
    assertThat(facts.remove("walled"))
        .singleElement()
        .asString()
        .as("whichever end tells")
        .containsPattern(
            String.format(
                Locale.ROOT,
                "rank [23] could not reach rank [01] at [0-9.]+:700[0-3]: %s[;,] |rank [23] \\([0-9.:]+\\) has not reached rank [01] at [0-9.]+:700[0-3]",
                why))
        .contains("a firewall between the hosts or an address of another network");
    assertThat(Integer.parseInt(Objects.requireNonNull(facts.remove("millis")).get(0)))
        .isBetween(2_000, 6_000);
    assertThat(facts.remove("sum"))
        .as("before, and without the firewall")
        .isEqualTo(Collections.nCopies(8, ""));
    assertThat(facts).isEmpty();
  }

  private static Map<String, List<String>> openAndEnd(
      ContainerCluster cluster, RunningDriver driver) throws Exception {
    cluster.sh(HEAD, "touch " + HostsProgram.OPEN);
    try {
      return driver.end();
    } finally {
      cluster.sh(HEAD, "rm " + HostsProgram.OPEN); // other tests share the cluster
    }
  }

  /** All along a rank is silent on its link only, so it is not lost. */
  @Test
  void whatARankSentBeforeItClosedArrivesHoweverLate(ContainerCluster cluster) throws Exception {
    RunningDriver driver =
        cluster.startDriver(HostsProgram.class.getName(), HostsProgram.LATE, HEAD, WORKER);
    driver.fact("ready");
    int first = HostsProgram.FIRST_PORT;
    ContainerCluster.Plug wall = cluster.wall(HEAD, first, first + 3, "DROP");
    Map<String, List<String>> facts;
    try {
      try {
        cluster.sh(HEAD, "touch " + HostsProgram.OPEN);
        driver.fact("there");
        Thread.sleep(5_000);
      } finally {
        wall.in();
      }
      facts = driver.end();
    } finally {
      cluster.sh(HEAD, "rm -f " + HostsProgram.OPEN); // other tests share the cluster
    }
    assertThat(facts.remove("there")).containsExactly("", "");
    assertThat(facts.remove("here")).as("%s", driver).containsExactly("", "");
    assertThat(facts.remove("failure")).containsExactly("null");
    assertThat(facts).containsOnlyKeys("ready");
  }

  /**
   * On one node only the worker has room for the actors, and the driver is in the head; on two
   * nodes half of the shards are with the driver.
   */
  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void theTokensOfTransformersAreDecodedOnAnotherHostThanTheDriversAndOnBoth(
      int nodes, ContainerCluster cluster) throws Exception {
    Decoding.check(cluster, nodes);
  }

  /** From the worker the cluster is a remote one. */
  @ParameterizedTest
  @ValueSource(strings = {HEAD, WORKER})
  void theLessonShowsASumOverBothHostsAndWhereEveryRankIs(String driver, ContainerCluster cluster)
      throws Exception {
    ExecResult result =
        cluster.driverOn(
            driver, Main.class.getName(), "hosts", "--address", cluster.address(), "--ranks", "3");
    assertThat(result.getExitCode()).as("%s", result).isZero();
    List<String> lines = result.getStdout().lines().toList();
    assertThat(lines).contains("healthy");
    for (String begin : List.of("rank ", "  rank ")) {
      assertThat(lines.stream().filter(line -> line.startsWith(begin)))
          .hasSize(3)
          .satisfiesOnlyOnce(line -> assertThat(line).contains(HEAD));
    }
  }

  @Test
  void whatAKilledTestRunLeftInTheEngineIsRemovedByTheNext() {
    DockerClient docker = ContainerCluster.docker();
    String network =
        docker
            .createNetworkCmd()
            .withName("nvrar-test-of-the-dead")
            .withLabels(Leftovers.labelOfTheDead())
            .exec()
            .getId();
    String container =
        docker
            .createContainerCmd(ContainerCluster.image())
            .withCmd("true")
            .withLabels(Leftovers.labelOfTheDead())
            .exec()
            .getId();
    try {
      assertThat(Leftovers.ofTheDead(docker)).contains(container, network);
    } finally {
      Leftovers.remove(docker);
    }
    assertThat(Leftovers.ofTheDead(docker)).isEmpty();
  }

  private static Map<String, List<String>> facts(ExecResult result) {
    assertThat(result.getExitCode()).as("%s", result).isZero();
    return Facts.of(result.getStdout());
  }
}
