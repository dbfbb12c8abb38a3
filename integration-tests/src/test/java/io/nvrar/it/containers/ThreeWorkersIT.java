package io.nvrar.it.containers;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.Container.ExecResult;

@DockerTest(workers = 3)
class ThreeWorkersIT extends WorkersContract {

  @Override
  List<String> runs() {
    return List.of(
        "[1, 1]", "[1, 1, 1]", "[1, 1, 2]", "[1, 2, 2]", "[1, 3, 2]", "[2, 3, 2]", "[3, 3, 2]");
  }

  @Test
  void actorsAreSpreadPackedAndDividedOverTheWorkers(ContainerCluster cluster) throws Exception {
    ExecResult result = cluster.driver(HostsProgram.class.getName(), HostsProgram.DIVIDED);
    assertThat(result.getExitCode()).as("%s", result).isZero();
    Map<String, List<String>> facts = Facts.of(result.getStdout());
    assertThat(facts.remove("sum"))
        .as("of groups of 3, 5, 4, 5 and 7 actors")
        .isEqualTo(Collections.nCopies(24, ""));
    assertThat(facts.remove("runs"))
        .containsExactly("[1, 1, 1]", "[2, 2, 1]", "[4]", "[3, 2]", "[3, 2, 2]");
    assertThat(facts).isEmpty();
  }
}
