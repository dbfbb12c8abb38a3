package io.nvrar.examples.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class BarrierGroupTest {

  private static List<Integer> ranks(String... hosts) {
    return IntStream.range(0, hosts.length)
        .mapToObj(partition -> BarrierGroup.rank(List.of(hosts), partition))
        .toList();
  }

  @Test
  void ranksOfAHostAreConsecutiveHoweverSparkPlacesTheTasks() {
    assertThat(ranks("a", "a", "a")).containsExactly(0, 1, 2);
    assertThat(ranks("b", "a", "c")).containsExactly(0, 1, 2);
    assertThat(ranks("b", "a", "c", "b", "a", "b")).containsExactly(0, 3, 5, 1, 4, 2);
  }
}
