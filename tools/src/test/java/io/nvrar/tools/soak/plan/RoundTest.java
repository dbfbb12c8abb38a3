package io.nvrar.tools.soak.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.tools.soak.call.CallSpec;
import io.nvrar.tools.soak.call.Collective;
import io.nvrar.tools.soak.call.Dice;
import io.nvrar.tools.soak.call.Shape;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class RoundTest {
  private static final int ROUNDS = 600;
  private static final int WORKERS = 8;

  @Test
  void everyProcessDrawsTheSameRound() {
    for (int number = 0; number < 50; number++) {
      assertThat(Round.draw(7, number, WORKERS)).isEqualTo(Round.draw(7, number, WORKERS));
    }
    assertThat(Round.draw(7, 1, WORKERS)).isNotEqualTo(Round.draw(8, 1, WORKERS));
  }

  @Test
  void everyFaultInEveryPhaseAndEveryCollectiveIsDrawn() {
    Set<Fault.Kind> kinds = EnumSet.noneOf(Fault.Kind.class);
    Set<Phase> phases = EnumSet.noneOf(Phase.class);
    Set<Collective> collectives = EnumSet.noneOf(Collective.class);
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(1, number, WORKERS);
      kinds.add(round.fault().kind());
      if (round.fault().kind() == Fault.Kind.KILL) {
        phases.add(round.fault().phase());
      }
      round.groups().forEach(g -> g.calls().forEach(call -> collectives.add(call.collective())));
    }
    assertThat(kinds).containsExactlyInAnyOrder(Fault.Kind.values());
    assertThat(phases).containsExactlyInAnyOrder(Phase.values());
    assertThat(collectives).containsExactlyInAnyOrder(Collective.values());
  }

  @Test
  void everyRankOfASplitFindsItsNewGroupAlike() {
    SplitPlan split = new SplitPlan(0, List.of(1, 0, 1, -1, 1), List.of(5, 0, -1, 0, 5), 3, 99);
    assertThat(split.groupOf(0)).containsExactly(2, 0, 4);
    assertThat(split.groupOf(4)).isEqualTo(split.groupOf(2)).isEqualTo(split.groupOf(0));
    assertThat(split.groupOf(1)).containsExactly(1);
  }

  @Test
  void aSplitNeverComesBetweenTheTwoCallsThatAFaultSwaps() {
    for (int number = 0; number < ROUNDS; number++) {
      GroupPlan group = Round.draw(5, number, WORKERS).first();
      if (group.split() != null
          && Set.of(Fault.Kind.SWAPPED_CALLS, Fault.Kind.MISSING_CALL)
              .contains(group.fault().kind())) {
        assertThat(group.split().step()).isNotEqualTo(group.fault().step() + 1);
      }
    }
  }

  @Test
  void onlyTheSecondHalfOfTheWorkersIsEverKilled() {
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(2, number, WORKERS);
      if (round.fault().kind() == Fault.Kind.KILL) {
        assertThat(round.first().faultyWorker()).isGreaterThanOrEqualTo(WORKERS / 2);
      }
    }
  }

  @Test
  void aDifferingCallCanBeToldApart() {
    Dice dice = Dice.of(3);
    for (int i = 0; i < 5000; i++) {
      int worldSize = dice.between(2, 8);
      CallSpec call = CallSpec.draw(dice, new Shape(worldSize, 0)).joiningAll();
      CallSpec other = call.differing(dice.between(0, 9), worldSize);
      assertThat(other.looksLike(call)).as("%s and %s", call, other).isFalse();
      assertThat(other.joinsAll()).isTrue();
    }
  }
}
