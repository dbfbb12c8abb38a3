package io.nvrar.it.soak;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.plan.Phase;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.Outcome;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What only all rounds of a soak together show. */
class ReportTest {
  private static final Outcome COMPLETE = Outcome.complete(3, 5);
  private static final Outcome FAILED =
      Outcome.thrown(new IllegalStateException("closed"), Phase.CALL, 2, 5);

  private static void run(
      Report report, Fault.Kind kind, int rounds, boolean happened, Outcome outcome) {
    Round round =
        IntStream.iterate(0, number -> number + 1)
            .mapToObj(number -> Round.draw(1, number, new Fleet(4, 2, 0)))
            .filter(drawn -> drawn.fault().kind() == kind)
            .findFirst()
            .orElseThrow();
    for (int i = 0; i < rounds; i++) {
      report.ended(round.fault(), COMPLETE, happened ? 1L : null);
      report.ended(round.fault(), outcome, happened ? 1L : null);
      report.ran(round, happened);
    }
  }

  private static List<String> judged(Report report) {
    report.judgeEffects();
    return report.complaints();
  }

  @ParameterizedTest
  @EnumSource(
      names = {
        "ABORT",
        "CLOSE_IN_CALL",
        "CUT_LINK",
        "KILL",
        "LONG_STOP",
        "OBSERVER_KILL",
        "OBSERVER_ABORT",
        "OBSERVER_DESTROY"
      })
  void aFaultThatNeverHasAnEffectIsFound(Fault.Kind kind) {
    Report report = new Report();
    run(report, kind, 20, true, COMPLETE);
    run(report, kind, 5, false, FAILED);
    assertThat(judged(report))
        .containsExactly(kind + " happened in 20 rounds, and no rank of any of them failed");
  }

  @Test
  void aFaultThatIsInTimeOnceOrHappensSeldomIsNone() {
    Report report = new Report();
    run(report, Fault.Kind.ABORT, 19, true, COMPLETE);
    run(report, Fault.Kind.KILL, 20, true, COMPLETE);
    run(report, Fault.Kind.KILL, 1, true, FAILED);
    run(report, Fault.Kind.DELAY, 100, true, COMPLETE);
    run(report, Fault.Kind.NONE, 100, false, COMPLETE);
    assertThat(judged(report)).isEmpty();
  }
}
