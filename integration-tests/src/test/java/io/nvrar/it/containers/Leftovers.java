package io.nvrar.it.containers;

import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.model.Container;
import com.github.dockerjava.api.model.Network;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Finds what test runs have left in the engine. All that a run makes carries a label that names its
 * JVM; what a JVM that was killed has left, the next run removes.
 */
final class Leftovers {

  private static final String LABEL = "io.nvrar.test.owner";

  private Leftovers() {}

  /** For all that this JVM makes in the engine. */
  static Map<String, String> label() {
    return Map.of(LABEL, ownerOf(ProcessHandle.current()));
  }

  /** For what a JVM makes that is dead by now. */
  static Map<String, String> labelOfTheDead() {
    return Map.of(LABEL, "0 " + Instant.EPOCH);
  }

  /** Names of the containers and networks of JVMs that are dead. */
  static List<String> ofTheDead(DockerClient docker) {
    return Stream.concat(
            containersOfTheDead(docker).map(Container::getId),
            networksOfTheDead(docker).map(Network::getId))
        .toList();
  }

  /** Removes the containers and networks of JVMs that are dead, and no others. */
  static void remove(DockerClient docker) {
    containersOfTheDead(docker)
        .forEach(
            container ->
                docker
                    .removeContainerCmd(container.getId())
                    .withForce(true)
                    .withRemoveVolumes(true)
                    .exec());
    networksOfTheDead(docker).forEach(network -> docker.removeNetworkCmd(network.getId()).exec());
  }

  private static Stream<Container> containersOfTheDead(DockerClient docker) {
    return docker
        .listContainersCmd()
        .withShowAll(true)
        .withLabelFilter(List.of(LABEL))
        .exec()
        .stream()
        .filter(container -> isDead(container.getLabels()));
  }

  private static Stream<Network> networksOfTheDead(DockerClient docker) {
    return docker.listNetworksCmd().withFilter("label", List.of(LABEL)).exec().stream()
        .filter(network -> isDead(network.getLabels()));
  }

  private static boolean isDead(Map<String, String> labels) {
    String owner = labels.getOrDefault(LABEL, "");
    return ProcessHandle.of(Long.parseLong(owner.substring(0, owner.indexOf(' '))))
        .filter(process -> ownerOf(process).equals(owner))
        .isEmpty();
  }

  /** The start too, because process ids are used again. */
  private static String ownerOf(ProcessHandle process) {
    return process.pid() + " " + process.info().startInstant().orElse(Instant.EPOCH);
  }
}
