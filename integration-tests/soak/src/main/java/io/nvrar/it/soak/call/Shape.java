package io.nvrar.it.soak.call;

import java.util.ArrayList;
import java.util.List;

/**
 * The properties of a group that determine the order of sums.
 *
 * @param nodes the number of ranks of each node
 */
public record Shape(List<Integer> nodes) {
  public Shape {
    nodes = List.copyOf(nodes);
  }

  /**
   * A group on one host.
   *
   * @param ranksPerNode how many of the ranks form a node, of which the last may have fewer; 0 for
   *     all
   */
  public static Shape divided(int worldSize, int ranksPerNode) {
    List<Integer> nodes = new ArrayList<>();
    int perNode = ranksPerNode == 0 ? worldSize : ranksPerNode;
    for (int left = worldSize; left > 0; left -= perNode) {
      nodes.add(Math.min(left, perNode));
    }
    return new Shape(nodes);
  }

  /** A group on several hosts, each of which is a node; given is the host of each rank. */
  public static Shape ofHosts(List<Integer> hostOfRank) {
    List<Integer> nodes = new ArrayList<>();
    int begin = 0;
    for (int r = 1; r <= hostOfRank.size(); r++) {
      if (r == hostOfRank.size() || !hostOfRank.get(r).equals(hostOfRank.get(begin))) {
        nodes.add(r - begin);
        begin = r;
      }
    }
    return new Shape(nodes);
  }

  public int worldSize() {
    return nodes.stream().mapToInt(Integer::intValue).sum();
  }

  public boolean isOneNode() {
    return nodes.size() == 1;
  }
}
