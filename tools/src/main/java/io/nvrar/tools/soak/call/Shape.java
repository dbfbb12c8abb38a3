package io.nvrar.tools.soak.call;

/**
 * The properties of a group that determine the order of sums.
 *
 * @param worldSize the ranks of a group
 * @param ranksPerNode how many of them form a node, 0 for all
 */
public record Shape(int worldSize, int ranksPerNode) {
  public boolean isOneNode() {
    return ranksPerNode == 0 || ranksPerNode >= worldSize;
  }
}
