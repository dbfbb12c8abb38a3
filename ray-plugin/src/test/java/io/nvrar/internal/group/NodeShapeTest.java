package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NodeShapeTest {

  @ParameterizedTest
  @CsvSource({
    "0 1 2 3, 0, 0", // one node stays one
    "0 1 2 3, 4, 0", // all within a node
    "0 1 2 3 4 5 6 7, 4, 4", // the parent's own shape
    "0 1 2 3 4 5, 4, 4", // a shorter last node
    "0 4, 4, 1", // one of each node
    "2 3 4 5, 4, 2", // halves of two nodes
    "0 4 5, 4, 0", // a longer last node
    "0 4 1 5, 4, 0", // no runs
    "1 0 5 4, 4, 2", // the order within a node does not matter
    "0 1 4 6 7, 2, 0", // uneven nodes
    "4 5 6 7 8 9 10 11 12 13 14 15, 8, 8", // no runs, but too many for a node
    "0 1 2 3 4 5 6 7 8, 0, 0", // every host is a node
  })
  void aGroupHasTheNodesThatItsMembersForm(String ranks, int gpusPerNode, int expected) {
    int[] inOrder = Arrays.stream(ranks.split(" ")).mapToInt(Integer::parseInt).toArray();
    assertThat(NodeShape.of(inOrder, gpusPerNode)).isEqualTo(expected);
  }
}
