package io.nvrar.ray;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How many nodes the actors of a group are on. They are divided as evenly as possible, and the
 * ranks of a node are consecutive, as groups that span hosts need them.
 *
 * @param fewest the smallest number of nodes
 * @param most the largest
 * @param fewestFirst whether a smaller number is preferred
 */
record NodeCount(int fewest, int most, boolean fewestFirst) {
  private static final String GPU = "GPU";

  static final NodeCount ONE = exactly(1);
  static final NodeCount PACKED = new NodeCount(1, Integer.MAX_VALUE, true);
  static final NodeCount SPREAD = new NodeCount(1, Integer.MAX_VALUE, false);

  static NodeCount exactly(int nodes) {
    return new NodeCount(nodes, nodes, true);
  }

  /**
   * One way to divide actors among nodes: each has as many as the others, or, if it is one of the
   * first, one more.
   */
  record Division(int actors, int nodes) {
    int fewestOnANode() {
      return actors / nodes;
    }

    /** How many nodes have one more. */
    int nodesWithMore() {
      return actors % nodes;
    }

    private int on(int node) {
      return fewestOnANode() + (node < nodesWithMore() ? 1 : 0);
    }

    /** The index of an actor's bundle. */
    int bundleOf(int rank) {
      if (nodes == 1) {
        return rank;
      }
      int node = 0;
      for (int first = on(0); first <= rank; first += on(node)) {
        node++;
      }
      return node;
    }

    /** On one node a bundle for each actor, otherwise one for each node. */
    List<Map<String, Double>> bundles(Map<String, Double> each) {
      List<Map<String, Double>> bundles = new ArrayList<>();
      for (int i = 0; i < (nodes == 1 ? actors : nodes); i++) {
        bundles.add(together(nodes == 1 ? 1 : on(i), each));
      }
      return bundles;
    }
  }

  /**
   * What so many actors take of a node. A share of a GPU is of a single one: of 1.2 GPUs, which are
   * one and 0.2 of another, only one of two actors with 0.6 gets its share.
   */
  static Map<String, Double> together(int actors, Map<String, Double> each) {
    Map<String, Double> all = new HashMap<>(each);
    all.replaceAll((resource, amount) -> amount * actors);
    double share = each.getOrDefault(GPU, 0.0);
    if (share > 0 && share < 1) {
      int onAGpu = (int) (1 / share);
      int full = (actors - 1) / onAGpu;
      all.put(GPU, full + (actors - full * onAGpu) * share);
    }
    return all;
  }

  /** The ways to divide so many actors, the preferred one first; empty if they are too few. */
  List<Division> divisions(int actors) {
    List<Division> divisions = new ArrayList<>();
    for (int nodes = fewest; nodes <= Math.min(most, actors); nodes++) {
      divisions.add(new Division(actors, nodes));
    }
    if (!fewestFirst) {
      Collections.reverse(divisions);
    }
    return divisions;
  }

  /** {@code one node}, {@code 2 nodes} or {@code any nodes}. */
  @Override
  public String toString() {
    return fewest != most ? "any nodes" : most == 1 ? "one node" : most + " nodes";
  }
}
