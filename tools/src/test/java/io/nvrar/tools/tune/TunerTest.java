package io.nvrar.tools.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import io.nvrar.TuningTable.Collective;
import io.nvrar.TuningTable.Rule;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.ToDoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The fastest candidate is found whatever the noise, and within the budget. */
class TunerTest {
  private static final long POINT_NANOS = 20_000_000;
  private static final long LONG = Long.MAX_VALUE / 4;
  private static final Candidate BEST_LARGE = new Candidate(Algorithm.TWO_SHOT, 32, 2);
  private static final Candidate BEST_SMALL = new Candidate(Algorithm.ONE_SHOT, 0, 0);
  private static final long SMALL = 16 << 10;

  private final AtomicLong clock = new AtomicLong();

  private static TuneSettings settings(Backend backend) {
    return new TuneSettings(
        backend, 4, 4, 0, DataType.BFLOAT16, Collective.ALL_REDUCE, 1 << 10, 8 << 20, 2);
  }

  private static Map<Long, List<Candidate>> grid(boolean full) {
    TuneSettings settings = settings(Backend.CUDA);
    Map<Long, List<Candidate>> grid = new TreeMap<>();
    settings.sizes().forEach(bytes -> grid.put(bytes, Grid.of(settings, bytes, full)));
    return grid;
  }

  /** Far from the best candidate of a size it is slower; to fix nothing costs 15 %. */
  private static double us(Point point) {
    Candidate is = point.candidate();
    Candidate best = point.bytes() <= SMALL ? BEST_SMALL : BEST_LARGE;
    double us = 10 + point.bytes() / 100_000.0;
    double slower = is.algorithm() == best.algorithm() ? 1 : 1.2;
    slower *= 1 + 0.15 * distance(is.blocks(), best.blocks());
    slower *= 1 + 0.15 * distance(is.tiles(), best.tiles());
    return us * slower;
  }

  private static double distance(int is, int best) {
    if (is == best) {
      return 0;
    }
    return is == 0 || best == 0 ? 1 : Math.abs(Math.log((double) is / best) / Math.log(2));
  }

  private Tuner tuner(ToDoubleFunction<Point> us, long budgetNanos) {
    PlantedMeasurer planted = new PlantedMeasurer(us);
    Measurer slow =
        new Measurer() {
          @Override
          public Timing measure(Point point) {
            clock.addAndGet(POINT_NANOS);
            return planted.measure(point);
          }

          @Override
          public void close() {}
        };
    return new Tuner(
        slow,
        clock::get,
        budgetNanos,
        (point, timing, done, all) -> assertThat(done).isLessThanOrEqualTo(all));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void thePlantedBestOfEachSizeIsFound(boolean full) throws IOException {
    Tuner tuner = tuner(TunerTest::us, LONG);
    List<Tuner.Found> found = tuner.run(grid(full), full);
    assertThat(tuner.isComplete()).isTrue();
    assertThat(found).hasSize(14);
    for (Tuner.Found size : found) {
      Candidate best = size.bytes() <= SMALL ? BEST_SMALL : BEST_LARGE;
      if (grid(full).getOrDefault(size.bytes(), List.of()).contains(best)) {
        assertThat(size.winner().candidate()).as(size.bytes() + " bytes").isEqualTo(best);
      }
    }
    assertThat(found.get(13).winner().candidate()).isEqualTo(BEST_LARGE);
  }

  @Test
  void halvingTakesFarFewerBatchesThanTheWholeGrid() throws IOException {
    PlantedMeasurer halved = new PlantedMeasurer(TunerTest::us);
    new Tuner(halved, clock::get, LONG, (p, t, d, a) -> {}).run(grid(false), false);
    PlantedMeasurer all = new PlantedMeasurer(TunerTest::us);
    new Tuner(all, clock::get, LONG, (p, t, d, a) -> {}).run(grid(false), true);
    assertThat(2 * batches(halved)).isLessThan(batches(all));
  }

  private static int batches(PlantedMeasurer measurer) {
    return measurer.points.stream().mapToInt(Point::repeats).sum();
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 100, 400})
  void theBudgetEndsItAndEverySizeHasAWinnerThatWasMeasured(long points) throws IOException {
    Tuner tuner = tuner(TunerTest::us, points * POINT_NANOS);
    List<Tuner.Found> found = tuner.run(grid(false), false);
    assertThat(found).hasSize(14);
    assertThat((long) tuner.points()).isLessThanOrEqualTo(Math.max(points, 14) + 1);
    assertThat(tuner.isComplete()).isFalse();
  }

  @Test
  void whatIsFasterByNoMoreThanTheNoiseDoesNotFixMore() throws IOException {
    Candidate plain = new Candidate(Algorithm.ONE_SHOT, 0, 0);
    Candidate shaped = new Candidate(Algorithm.ONE_SHOT, 16, 2);
    for (double part : new double[] {0.985, 0.9}) {
      Measurer exact =
          new Measurer() {
            @Override
            public Timing measure(Point point) {
              double us = point.candidate().equals(shaped) ? part * 10 : 10;
              return new Timing(us, us, us, 0);
            }

            @Override
            public void close() {}
          };
      Tuner tuner = new Tuner(exact, clock::get, LONG, (p, t, d, a) -> {});
      Candidate winner =
          tuner.run(Map.of(4096L, List.of(plain, shaped)), false).get(0).winner().candidate();
      assertThat(winner).isEqualTo(part > 0.98 ? plain : shaped);
    }
  }

  @Test
  void aFastCandidateWithWrongResultsDoesNotCount() throws IOException {
    Candidate wrong = new Candidate(Algorithm.TWO_SHOT, 0, 0);
    Candidate right = new Candidate(Algorithm.ONE_SHOT, 0, 0);
    Tuner tuner = tuner(point -> point.candidate().equals(wrong) ? -1 : 50, LONG);
    Tuner.Found found = tuner.run(Map.of(64L, List.of(wrong, right)), false).get(0);
    assertThat(found.winner().candidate()).isEqualTo(right);
    assertThat(found.wrong())
        .isNotEmpty()
        .allSatisfy(each -> assertThat(each.candidate()).isEqualTo(wrong));
    Tuner hopeless = tuner(point -> -1, LONG);
    assertThatThrownBy(() -> hopeless.run(Map.of(64L, List.of(wrong, right)), false))
        .isInstanceOf(IOException.class)
        .hasMessage("every result of 64 bytes was wrong");
  }

  @Test
  void neighboursWithTheSameWinnerShareARuleAndOtherRulesOfTheFileStay() throws IOException {
    TuneSettings settings = settings(Backend.CUDA);
    List<Tuner.Found> found = tuner(TunerTest::us, LONG).run(grid(false), false);
    List<Rule> rules = Rules.of(settings, "sm_90", found);
    assertThat(rules).hasSizeLessThan(14);
    assertThat(rules.get(rules.size() - 1))
        .isEqualTo(
            new Rule(
                DataType.BFLOAT16,
                4,
                4,
                8 << 20,
                Algorithm.TWO_SHOT,
                Collective.ALL_REDUCE,
                "sm_90",
                new TuningTable.LaunchShape(32, 0, 2)));
    // The middle of 16 and 32 KiB, as factors go.
    assertThat(rules.get(0).algorithm()).isEqualTo(Algorithm.ONE_SHOT);
    assertThat(rules.get(0).bytesMax()).isEqualTo(23170);
    Rule elsewhere = new Rule(DataType.BFLOAT16, 4, 4, 99, Algorithm.TWO_SHOT);
    Rule stale =
        new Rule(
            DataType.BFLOAT16,
            4,
            4,
            77,
            Algorithm.TWO_SHOT,
            Collective.ALL_REDUCE,
            "sm_90",
            TuningTable.LaunchShape.BUILT_IN);
    assertThat(Rules.merged(rules, TuningTable.of(List.of(stale, elsewhere))).rules())
        .startsWith(rules.toArray(Rule[]::new))
        .contains(elsewhere)
        .doesNotContain(stale);
  }

  @Test
  void onTheCpuThereAreAlgorithmsAndNoShapes() {
    assertThat(Grid.of(settings(Backend.CPU), 4096, true))
        .containsExactly(
            new Candidate(Algorithm.ONE_SHOT, 0, 0), new Candidate(Algorithm.TWO_SHOT, 0, 0));
    assertThat(Grid.of(settings(Backend.CUDA), 512, true))
        .as("a message of one tile has one shape")
        .containsExactlyInAnyOrder(
            new Candidate(Algorithm.ONE_SHOT, 0, 0),
            new Candidate(Algorithm.ONE_SHOT, 0, 1),
            new Candidate(Algorithm.TWO_SHOT, 0, 0),
            new Candidate(Algorithm.TWO_SHOT, 0, 1));
  }
}
