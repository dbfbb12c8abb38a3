package io.nvrar.it.soak;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Phase;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.WorkerMain;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** That soak passes what works and finds what does not; the workers are real processes. */
@Tag("slow")
class SoakTest {
  private static final long SEED = 4;

  private final List<String> said = new ArrayList<>();
  @TempDir private Path directory;

  private Report soak(Class<?> worker, int rounds) throws Exception {
    return soak(worker, 0, rounds, new Fleet(2, 1, 0));
  }

  private Report soak(Class<?> worker, int firstRound, int rounds, Fleet fleet) throws Exception {
    return new Soak(
            new Soak.Settings(
                SEED,
                firstRound,
                rounds,
                Duration.ofMinutes(2),
                2,
                fleet,
                Duration.ofSeconds(10),
                worker.getName(),
                directory),
            said::add)
        .run();
  }

  @Test
  void roundsWithFaultsPass() throws Exception {
    Report report = soak(WorkerMain.class, 8);
    assertThat(report.complaints()).isEmpty();
    assertThat(report.rounds()).isEqualTo(8);
    assertThat(said).last().asString().contains("0 wrong results, 0 leaks, 0 complaints");
  }

  @Test
  void roundsOverLinksPass() throws Exception {
    assumeHosts();
    Report report = soak(WorkerMain.class, 0, 8, new Fleet(2, 3, 0));
    assertThat(report.complaints()).isEmpty();
    assertThat(said)
        .anySatisfy(line -> assertThat(line).matches("groups on several hosts: [1-9].*"));
  }

  @Test
  void aLinkThatIsCutDuringCallsFailsAllRanksWithTheLossOfAnEnd() throws Exception {
    assumeHosts();
    Fleet fleet = new Fleet(4, 2, 0);
    // Early in many calls, so that it comes in time.
    int round =
        IntStream.iterate(0, number -> number + 1)
            .filter(number -> isCutEarly(Round.draw(SEED, number, fleet).first()))
            .findFirst()
            .orElseThrow();
    int ranks = Round.draw(SEED, round, fleet).first().worldSize();
    String outcome = "PeerLostException=" + ranks + "}";
    // Again, because the thread that cuts may get no processor before the calls are over.
    for (int attempt = 0; attempt < 3 && !isCutWith(outcome); attempt++) {
      Report report = soak(WorkerMain.class, round, 1, fleet);
      assertThat(report.complaints()).isEmpty();
    }
    assertThat(said).anySatisfy(line -> assertThat(line).contains("CUT_LINK", outcome));
  }

  private boolean isCutWith(String outcome) {
    return said.stream().anyMatch(line -> line.contains("CUT_LINK") && line.contains(outcome));
  }

  private static boolean isCutEarly(GroupPlan group) {
    Fault fault = group.fault();
    return fault.kind() == Fault.Kind.CUT_LINK
        && fault.phase() == Phase.CALL
        && fault.step() < group.calls().size() / 3
        && fault.delayMicros() < 100;
  }

  /** Skips the test where this machine cannot simulate hosts, and fails it in CI. */
  private static void assumeHosts() throws Exception {
    String obstacle = SimulatedHosts.obstacle();
    String sentence = "hosts cannot be simulated here: " + obstacle;
    if ("true".equals(System.getenv("CI"))) {
      assertThat(obstacle).as(sentence).isNull();
    }
    Assumptions.assumeTrue(obstacle == null, sentence);
  }

  @Test
  void whatAWorkersJvmWritesToStandardErrorHidesNoAnswer() throws Exception {
    Report report = soak(MutteringWorker.class, 2);
    assertThat(report.complaints()).isEmpty();
    assertThat(report.rounds()).isEqualTo(2);
  }

  @Test
  void oneWrongBitIsFoundAndTheRoundIsNamed() throws Exception {
    Report report = soak(CorruptingWorker.class, 8);
    assertThat(report.complaints())
        .anySatisfy(
            complaint ->
                assertThat(complaint)
                    .contains("rank 1", "WRONG_RESULT", "ALL_REDUCE", "must be 0x"));
    assertThat(said)
        .last()
        .asString()
        .isEqualTo(
            "to repeat, with GPUs on 0 hosts: bin/nvrar soak --seed 4 --workers 2 --hosts 1 --from-round "
                + (report.rounds() - 1)
                + "; logs are in "
                + directory);
  }

  @Test
  void aForgottenDescriptorIsFoundAndTheRepeatFindsItAgain() throws Exception {
    Report report = soak(LeakingWorker.class, 30);
    assertThat(report.complaints())
        .anySatisfy(complaint -> assertThat(complaint).contains("leaks", "descriptors of socket"))
        .anySatisfy(
            complaint -> assertThat(complaint).contains("nvrar top still finds", "forgotten-id-1"));
    // It has 2 rounds without a check of their own before the 2 in which it leaked.
    assertThat(said).last().asString().contains("--from-round " + (report.rounds() - 4) + ";");
  }

  @Test
  void aSoakOfNoRoundsIsRefusedRatherThanPassed() {
    for (String rounds : List.of("0", "-1")) {
      StringWriter err = new StringWriter();
      CommandLine command = new CommandLine(new SoakCommand()).setErr(new PrintWriter(err, true));
      assertThat(command.execute("--rounds", rounds)).isEqualTo(2);
      assertThat(err.toString()).startsWith("--rounds is " + rounds + ", must be 1 or more");
    }
  }

  @Test
  void aFailureThatNoFaultExplainsIsFound() throws Exception {
    assertThat(soak(FailingWorker.class, 8).complaints())
        .anySatisfy(
            complaint -> assertThat(complaint).contains("must not end so", "nothing is wrong"));
  }
}
