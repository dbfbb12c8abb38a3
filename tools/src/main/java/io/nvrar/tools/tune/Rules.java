package io.nvrar.tools.tune;

import io.nvrar.TuningTable;
import io.nvrar.TuningTable.LaunchShape;
import io.nvrar.TuningTable.Rule;
import java.util.ArrayList;
import java.util.List;

/** The rules of a table from what was found. */
final class Rules {
  private Rules() {}

  /** Neighbouring sizes with the same winner share a rule; between two sizes it is the middle. */
  static List<Rule> of(TuneSettings settings, String architecture, List<Tuner.Found> found) {
    List<Rule> rules = new ArrayList<>();
    for (int i = 0; i < found.size(); i++) {
      Candidate winner = found.get(i).winner().candidate();
      boolean last = i + 1 == found.size();
      if (!last && found.get(i + 1).winner().candidate().equals(winner)) {
        continue;
      }
      long bytes = found.get(i).bytes();
      long limit = last ? bytes : (long) Math.sqrt((double) bytes * found.get(i + 1).bytes());
      rules.add(
          new Rule(
              settings.type(),
              settings.ranks(),
              settings.ranksPerNode(),
              settings.bytesOfRule(limit),
              winner.algorithm(),
              settings.collective(),
              architecture,
              new LaunchShape(winner.blocks(), 0, winner.tiles())));
    }
    return rules;
  }

  /**
   * The new rules, and those of a table that are for something else.
   *
   * @throws IllegalArgumentException if they are too many
   */
  static TuningTable merged(List<Rule> rules, TuningTable before) {
    List<Rule> all = new ArrayList<>(rules);
    for (Rule old : before.rules()) {
      if (rules.stream().noneMatch(rule -> isForTheSame(rule, old))) {
        all.add(old);
      }
    }
    return TuningTable.of(all);
  }

  private static boolean isForTheSame(Rule one, Rule other) {
    return one.dataType() == other.dataType()
        && one.worldSize() == other.worldSize()
        && one.gpusPerNode() == other.gpusPerNode()
        && one.collective() == other.collective()
        && one.architecture().equals(other.architecture());
  }
}
