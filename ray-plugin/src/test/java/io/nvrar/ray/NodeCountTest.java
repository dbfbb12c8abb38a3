package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.entry;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NodeCountTest {

  private static List<Integer> nodes(NodeCount count, int actors) {
    return count.divisions(actors).stream().map(NodeCount.Division::nodes).toList();
  }

  @Test
  void whereTheNumberIsFreeEveryOneIsTriedInOrder() {
    assertThat(nodes(NodeCount.PACKED, 4)).containsExactly(1, 2, 3, 4);
    assertThat(nodes(NodeCount.SPREAD, 4)).containsExactly(4, 3, 2, 1);
    assertThat(nodes(NodeCount.SPREAD, 1)).containsExactly(1);
    assertThat(nodes(NodeCount.ONE, 8)).containsExactly(1);
    assertThat(nodes(NodeCount.exactly(5), 4)).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "4, 2, 0011",
    "5, 2, 00011",
    "5, 3, 00112",
    "4, 3, 0012",
    "7, 3, 0001122",
    "3, 3, 012",
    "4, 1, 0123"
  })
  void theActorsOfANodeAreConsecutive(int actors, int nodes, String bundles) {
    NodeCount.Division division = NodeCount.exactly(nodes).divisions(actors).get(0);
    assertThat(IntStream.range(0, actors).map(division::bundleOf).boxed().toList())
        .isEqualTo(bundles.chars().map(c -> c - '0').boxed().toList());
  }

  @Test
  void aNodesBundleHoldsItsActors() {
    Map<String, Double> each = Map.of("GPU", 0.5, "CPU", 2.0);
    assertThat(NodeCount.exactly(2).divisions(5).get(0).bundles(each))
        .containsExactly(Map.of("GPU", 1.5, "CPU", 6.0), Map.of("GPU", 1.0, "CPU", 4.0));
    assertThat(NodeCount.ONE.divisions(2).get(0).bundles(each)).containsExactly(each, each);
  }

  @ParameterizedTest
  @CsvSource({
    "0.6, 1, 0.6",
    "0.6, 2, 1.6", // not 1.2, where the second would have 0.2 of a GPU
    "0.6, 3, 2.6",
    "0.4, 2, 0.8",
    "0.4, 3, 1.4",
    "0.25, 4, 1",
    "0.5, 5, 2.5",
    "1, 3, 3",
    "2, 3, 6",
  })
  void aShareOfAGpuIsOfASingleOne(double each, int actors, double together) {
    assertThat(NodeCount.together(actors, Map.of("GPU", each)))
        .containsExactly(entry("GPU", together));
  }

  @Test
  void otherResourcesAreShared() {
    assertThat(NodeCount.together(3, Map.of("CPU", 0.6)).get("CPU")).isCloseTo(1.8, within(1e-9));
  }
}
