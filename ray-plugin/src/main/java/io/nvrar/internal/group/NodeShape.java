package io.nvrar.internal.group;

import io.nvrar.internal.wire.GroupSpec;
import java.util.BitSet;

/**
 * Computes the {@code gpusPerNode} of a new group from the nodes of its members in the old group.
 */
final class NodeShape {
  private NodeShape() {}

  /**
   * The {@code gpusPerNode} of a group that is split from another: each node has this many
   * consecutive ranks; only the last may have fewer.
   *
   * @param ranks the new group's members by their old rank, in the order of their new ranks
   * @param gpusPerNode that of the old group; 0 if it is one node
   * @return if the members are in one node, or are in several nodes but not in such runs: 0, for
   *     one node, or {@code gpusPerNode} if they are too many for one
   */
  static int of(int[] ranks, int gpusPerNode) {
    int runs = runs(ranks, gpusPerNode);
    return runs == 0 && ranks.length > GroupSpec.MAX_NODE_SIZE ? gpusPerNode : runs;
  }

  private static int runs(int[] ranks, int gpusPerNode) {
    if (gpusPerNode == 0) {
      return 0;
    }
    BitSet left = new BitSet();
    int runRanks = 0;
    int firstRunRanks = 0;
    int node = -1;
    for (int rank : ranks) {
      int next = rank / gpusPerNode;
      if (next == node) {
        runRanks++;
        continue;
      }
      if (left.get(next)) {
        return 0;
      }
      if (node >= 0) {
        left.set(node);
        firstRunRanks = firstRunRanks == 0 ? runRanks : firstRunRanks;
        if (runRanks != firstRunRanks) {
          return 0;
        }
      }
      node = next;
      runRanks = 1;
    }
    return firstRunRanks != 0 && runRanks <= firstRunRanks ? firstRunRanks : 0;
  }
}
