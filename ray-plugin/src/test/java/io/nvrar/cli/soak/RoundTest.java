package io.nvrar.cli.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.EnumSet;
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
