package io.nvrar.it.containers;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.it.actors.Collective;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.Container.ExecResult;

/** What holds on a cluster whose head has no actors, whatever the number of its workers. */
abstract class WorkersContract {

  /** How many consecutive ranks are on a host, for groups of 2 to 8 ranks. */
  abstract List<String> runs();

  @Test
  void everyCollectiveIsRightWithTwoToEightRanks(ContainerCluster cluster) throws Exception {
    List<String> command = new ArrayList<>(List.of(HostsProgram.class.getName(), "sizes"));
    command.addAll(cluster.workers());
    ExecResult result = cluster.driver(command.toArray(String[]::new));
    assertThat(result.getExitCode()).as("%s", result).isZero();
    Map<String, List<String>> facts = Facts.of(result.getStdout());
    assertThat(facts.remove("runs")).isEqualTo(runs());
    assertThat(facts)
        .containsOnlyKeys(Arrays.stream(Collective.values()).map(Collective::name).toList());
    int ranks = HostsProgram.MOST_RANKS * (HostsProgram.MOST_RANKS + 1) / 2 - 1;
    assertThat(facts)
        .allSatisfy(
            (collective, wrong) -> assertThat(wrong).isEqualTo(Collections.nCopies(ranks, "")));
  }

  @Test
  void theTextIsTheSameWithTheShardsOnAllWorkers(ContainerCluster cluster) throws Exception {
    Decoding.check(cluster, cluster.workers().size());
  }
}
