package io.nvrar.it.soak.plan;

import io.nvrar.Backend;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.call.Shape;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * How a group is split once.
 *
 * @param step the call of the group before which it is split
 * @param colors the color of each rank; negative for a rank that joins no new group
 * @param keys the key of each rank
 * @param calls the number of calls of each new group
 * @param seed the seed of these calls
 */
public record SplitPlan(int step, List<Integer> colors, List<Integer> keys, int calls, long seed) {
  private static final int MAX_CALLS = 8;
  private static final int MAX_COLOR = 2;

  static SplitPlan draw(Dice dice, int step, int worldSize) {
    int groups = dice.between(0, MAX_COLOR);
    List<Integer> colors = new ArrayList<>();
    List<Integer> keys = new ArrayList<>();
    for (int r = 0; r < worldSize; r++) {
      colors.add(dice.chance(0.1) ? -1 : dice.between(0, groups));
      keys.add(dice.between(-2, 2));
    }
    return new SplitPlan(
        step, List.copyOf(colors), List.copyOf(keys), dice.between(0, MAX_CALLS), dice.next());
  }

  /**
   * The old ranks of the new group that a rank joins, in the order of the new ranks: that of the
   * keys, but with the ranks of a host together, in the place of the first of them.
   *
   * @param hosts the host of each old rank
   */
  public List<Integer> groupOf(int rank, List<Integer> hosts) {
    List<Integer> byKey =
        IntStream.range(0, colors.size())
            .filter(r -> colors.get(r).equals(colors.get(rank)))
            .boxed()
            .sorted(Comparator.<Integer>comparingInt(keys::get).thenComparing(r -> r))
            .toList();
    return byKey.stream()
        .map(hosts::get)
        .distinct()
        .flatMap(host -> byKey.stream().filter(r -> hosts.get(r).equals(host)))
        .toList();
  }

  /** One call of a new group, drawn when its shape is known. */
  public CallSpec call(int color, int index, Shape shape, Backend backend) {
    return CallSpec.draw(Dice.of(seed, color, index), shape, backend);
  }
}
