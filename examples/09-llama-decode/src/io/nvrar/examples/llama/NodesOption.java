package io.nvrar.examples.llama;

import io.nvrar.examples.llama.weights.ModelException;
import java.util.Locale;
import picocli.CommandLine.Option;

/** On how many nodes of the cluster the actors are to be. */
final class NodesOption {
  @Option(
      names = "--nodes",
      paramLabel = "N",
      defaultValue = "1",
      description =
          "Number of the cluster's nodes that the actors are on (default: ${DEFAULT-VALUE}).")
  private int nodes;

  /**
   * Checks it.
   *
   * @param ranks the actors, or the most of them if their number is not known yet
   */
  void check(int ranks) {
    if (nodes < 1 || nodes > ranks) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "There were to be %d nodes, and %d ranks are on 1 to %d.",
              nodes,
              ranks,
              ranks));
    }
  }

  int nodes() {
    return nodes;
  }
}
