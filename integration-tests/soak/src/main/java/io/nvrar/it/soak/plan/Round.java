package io.nvrar.it.soak.plan;

import io.nvrar.it.soak.call.Dice;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Groups that live at the same time in the same processes, and one fault in the first. It is a pure
 * function of (seed, number, fleet), so the controller and every worker draw it independently.
 *
 * @param number the number of the round; the first is 0
 * @param groups the groups, at least one; only the first has a fault
 */
public record Round(int number, List<GroupPlan> groups) {

  private static final double QUIET = 0.25;
  private static final List<Fault.Kind> KINDS =
      List.of(Fault.Kind.values()).stream().filter(kind -> kind != Fault.Kind.NONE).toList();

  /**
   * Draws a round.
   *
   * @param fleet the worker processes for members
   */
  public static Round draw(long seed, int number, Fleet fleet) {
    Dice dice = Dice.of(seed, number);
    Fault.Kind kind = dice.chance(QUIET) ? Fault.Kind.NONE : dice.pick(kindsFor(fleet));
    int count = dice.chance(0.5) ? 1 : dice.between(2, 3);
    List<GroupPlan> groups = new ArrayList<>();
    for (int g = 0; g < count; g++) {
      Fault.Kind ofGroup = g == 0 ? kind : Fault.Kind.NONE;
      GroupDraw group = new GroupDraw(Dice.of(seed, number, g), fleet, g == 0, ofGroup, kind);
      groups.add(group.draw(number, g));
    }
    return new Round(number, groups);
  }

  private static List<Fault.Kind> kindsFor(Fleet fleet) {
    return KINDS.stream().filter(kind -> fleet.hosts() > 1 || !kind.needsLinks()).toList();
  }

  /** The group that has the fault, if any has. */
  public GroupPlan first() {
    return groups.get(0);
  }

  public Fault fault() {
    return first().fault();
  }

  @Override
  public String toString() {
    StringBuilder text =
        new StringBuilder(String.format(Locale.ROOT, "round %d, %s", number, fault()));
    groups.forEach(group -> text.append("\n  ").append(group));
    return text.toString();
  }
}
