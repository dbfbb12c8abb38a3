package io.nvrar.tools.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A run that was stopped goes on where it was. */
class JournalTest {
  private static final Candidate ONE = new Candidate(Algorithm.ONE_SHOT, 0, 0);
  private static final Candidate TWO = new Candidate(Algorithm.TWO_SHOT, 8, 2);

  @TempDir private Path directory;

  private Path path() {
    return Journal.of(directory.resolve("table.json"));
  }

  private Journal open(String run, boolean resume, Measurer measurer) throws IOException {
    return Journal.open(path(), run, resume, measurer);
  }

  @Test
  void whatWasMeasuredIsNotMeasuredAgain() throws IOException {
    PlantedMeasurer first = new PlantedMeasurer(point -> 10);
    Timing before;
    try (Journal journal = open("a run", false, first)) {
      before = journal.measure(new Point(64, ONE, 3));
      assertThat(journal.measure(new Point(64, ONE, 3))).isEqualTo(before);
    }
    assertThat(first.points).hasSize(1);
    assertThat(first.closed).isEqualTo(1);
    // As a killed process leaves it.
    Files.writeString(path(), "{\"point\": {\"bytes\": 64, \"cand", StandardOpenOption.APPEND);
    for (int again = 0; again < 2; again++) {
      PlantedMeasurer second = new PlantedMeasurer(point -> 20);
      try (Journal journal = open("a run", true, second)) {
        assertThat(journal.size()).isEqualTo(1 + again);
        assertThat(journal.measure(new Point(64, ONE, 3))).isEqualTo(before);
        assertThat(journal.measure(new Point(64, TWO, 3)).us()).isGreaterThan(15);
      }
      assertThat(second.points).hasSize(1 - again);
    }
  }

  @Test
  void aStoppedTunerFindsAfterwardsWhatItWouldHaveFound() throws IOException {
    Map<Long, List<Candidate>> grid = Map.of(64L, List.of(ONE, TWO));
    PlantedMeasurer stopped =
        new PlantedMeasurer(
            point -> {
              if (point.repeats() == 9) {
                throw new IllegalStateException("killed");
              }
              return point.candidate().equals(TWO) ? 5 : 10;
            });
    try (Journal journal = open("a run", false, stopped)) {
      Tuner tuner = new Tuner(journal, System::nanoTime, Long.MAX_VALUE / 4, (p, t, d, a) -> {});
      assertThatThrownBy(() -> tuner.run(grid, false)).hasMessage("killed");
    }
    PlantedMeasurer rest = new PlantedMeasurer(point -> point.candidate().equals(TWO) ? 5 : 10);
    try (Journal journal = open("a run", true, rest)) {
      Tuner tuner = new Tuner(journal, System::nanoTime, Long.MAX_VALUE / 4, (p, t, d, a) -> {});
      assertThat(tuner.run(grid, false).get(0).winner().candidate()).isEqualTo(TWO);
    }
    assertThat(rest.points).noneMatch(point -> point.repeats() == 3).hasSize(4);
  }

  @Test
  void aJournalOfSomethingElseIsRefusedAndWithoutResumeBegunAgain() throws IOException {
    open("a run", false, new PlantedMeasurer(point -> 10)).close();
    assertThatThrownBy(() -> open("another", true, new PlantedMeasurer(point -> 10)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("is of another measurement (a run)");
    try (Journal journal = open("another", false, new PlantedMeasurer(point -> 10))) {
      assertThat(journal.size()).isZero();
    }
    assertThat(Files.readAllLines(path())).containsExactly("another");
  }

  /** Two of them would write into each other's file, and the last one forget the other's rules. */
  @Test
  void ofTwoRunsForATableTheSecondOneIsRefusedAndSpoilsNothing() throws IOException {
    try (Journal running = open("a run", false, new PlantedMeasurer(point -> 10))) {
      running.measure(new Point(64, ONE, 3));
      for (boolean resume : new boolean[] {false, true}) {
        assertThatThrownBy(() -> open("a run", resume, new PlantedMeasurer(point -> 10)))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessage("another nvrar tune measures for the same table: it has locked " + path());
      }
    }
    try (Journal resumed = open("a run", true, new PlantedMeasurer(point -> 10))) {
      assertThat(resumed.size()).isEqualTo(1);
      resumed.delete();
    }
    assertThat(path()).doesNotExist();
  }

  @Test
  void aPointWithoutATimeIsMeasuredAgain() throws IOException {
    open("a run", false, new PlantedMeasurer(point -> 10)).close();
    String point = "{\"point\":{\"bytes\":64,\"candidate\":{\"algorithm\":\"ONE_SHOT\"},";
    Files.writeString(
        path(), point + "\"repeats\":3},\"timing\":{\"wrong\":0}}\n", StandardOpenOption.APPEND);
    try (Journal journal = open("a run", true, new PlantedMeasurer(one -> 10))) {
      assertThat(journal.size()).isZero();
    }
    assertThat(Files.readAllLines(path())).containsExactly("a run");
  }

  @Test
  void aJournalThatIsNoTextIsRefusedInOneLine() throws IOException {
    Files.write(path(), new byte[] {27, '[', '2', 'J', -1, -2, 13, '\n', -1});
    assertThatThrownBy(() -> open("a run", true, new PlantedMeasurer(point -> 10)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("is of another measurement (?[2J");
  }
}
