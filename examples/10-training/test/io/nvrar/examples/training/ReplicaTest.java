package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.CollectiveGroup;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("slow")
class ReplicaTest {
  private static final Text TEXT = text();

  private static Text text() {
    try {
      return Text.of(Files.readAllBytes(Path.of("text/pride.txt")), "pride.txt", 32);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static TrainingPlan plan(float rate, long seed) {
    return new TrainingPlan(2, 32, 2, 32, 12, 100, rate, seed);
  }

  private static Replica fresh(CollectiveGroup group) {
    return new Replica(group, plan(0.003f, 1), TEXT, 0, new byte[0]);
  }

  private static float[] losses(Replica replica, int steps) {
    float[] losses = new float[steps];
    for (int i = 0; i < steps; i++) {
      losses[i] = replica.step();
    }
    return losses;
  }

  private static float[] lossesOf(CollectiveGroup group, int steps) {
    try (Replica replica = fresh(group)) {
      return losses(replica, steps);
    }
  }

  @Test
  void theLossFallsAndIsThatOfOneRank() throws Exception {
    float[] alone = Ranks.run(1, group -> lossesOf(group, 50)).get(0);
    assertThat(alone[0]).isCloseTo((float) Math.log(TEXT.vocabularySize()), within(0.1f));
    assertThat(alone[49]).isLessThan(3.4f);
    for (int size : new int[] {2, 3, 4}) {
      for (float[] losses : Ranks.run(size, group -> lossesOf(group, 50))) {
        assertThat(losses).containsExactly(alone, within(1e-3f));
      }
    }
  }

  /**
   * DJL gives PyTorch memory of Java's, and holds it by objects only. What is computed must not
   * depend on when the collector runs.
   */
  @Test
  void theLossIsTheSameWhateverTheCollectorDoes() throws Exception {
    float[] expected = Ranks.run(2, group -> lossesOf(group, 20)).get(0);
    AtomicBoolean done = new AtomicBoolean();
    Thread collecting =
        new Thread(
            () -> {
              while (!done.get()) {
                System.gc();
              }
            });
    collecting.start();
    try {
      assertThat(Ranks.run(2, group -> lossesOf(group, 20)).get(0)).containsExactly(expected);
    } finally {
      done.set(true);
      collecting.join();
    }
  }

  @Test
  void whatGoesOnFromAStateIsWhatWouldHaveBeen() throws Exception {
    List<float[]> results =
        Ranks.run(
            2,
            group -> {
              byte[] state;
              float[] whole;
              try (Replica replica = fresh(group)) {
                losses(replica, 10);
                state = replica.state();
                whole = losses(replica, 10);
              }
              try (Replica resumed = new Replica(group, plan(0.003f, 1), TEXT, 10, state)) {
                assertThat(losses(resumed, 10)).containsExactly(whole);
              }
              return whole;
            });
    assertThat(results).hasSize(2);
  }

  @Test
  void aStateOfAnotherShapeIsRefused() throws Exception {
    Ranks.run(
        1,
        group -> {
          assertThatThrownBy(() -> new Replica(group, plan(0.003f, 1), TEXT, 1, new byte[12]))
              .isInstanceOf(TrainingException.class)
              .hasMessageMatching(
                  "the checkpoint holds 12 bytes of state, this model has [0-9]{6}");
          return true;
        });
  }

  @Test
  void aLossThatIsNoNumberEndsAllRanksWithTheStepAndTheRank() throws Exception {
    assertThat(Ranks.run(2, group -> failure(group, plan(1e30f, 1), 20)))
        .containsOnly("the loss of rank 0 became NaN in step 2: a smaller --rate may help");
  }

  @Test
  void ranksWhoseParametersDifferAreNamed() throws Exception {
    assertThat(Ranks.run(3, group -> failure(group, plan(0.003f, group.rank() == 1 ? 2 : 1), 5)))
        .containsOnly("the parameters of rank 1 are not those of rank 0 after step 1");
  }

  private static String failure(CollectiveGroup group, TrainingPlan plan, int steps) {
    try (Replica replica = new Replica(group, plan, TEXT, 0, new byte[0])) {
      losses(replica, steps);
      return "";
    } catch (TrainingException e) {
      return String.valueOf(e.getMessage());
    }
  }

  @Test
  void parametersThatAreNoNumbersAfterTheLastStepAreNoResult() throws Exception {
    Ranks.run(
        1,
        group -> {
          byte[] state;
          try (Replica replica = new Replica(group, plan(1e38f, 1), TEXT, 0, new byte[0])) {
            losses(replica, 1);
            assertThatThrownBy(replica::heldOutLoss)
                .isInstanceOf(TrainingException.class)
                .hasMessage("the held-out loss became NaN after step 1: a smaller --rate may help");
            state = replica.state();
          }
          Arrays.fill(state, (byte) 0xFF);
          try (Replica replica = new Replica(group, plan(1e38f, 1), TEXT, 1, state)) {
            assertThatThrownBy(replica::state)
                .isInstanceOf(TrainingException.class)
                .hasMessage("the parameters became NaN in step 1: a smaller --rate may help");
          }
          return true;
        });
  }

  @Test
  void thePlanKnowsTheNumberOfParameters() throws Exception {
    Ranks.run(
        1,
        group -> {
          try (Replica replica = fresh(group)) {
            assertThat(replica.parameterCount())
                .isEqualTo(plan(0.003f, 1).parameters(TEXT.vocabularySize()));
          }
          return true;
        });
  }

  @Test
  void theHeldOutLossDoesNotDependOnTheRanks() throws Exception {
    double alone = heldOut(1);
    assertThat(alone).isBetween(3.0, 4.6);
    assertThat(heldOut(3)).isCloseTo(alone, within(1e-5));
  }

  private static double heldOut(int size) throws Exception {
    return Ranks.run(
            size,
            group -> {
              try (Replica replica = fresh(group)) {
                return replica.heldOutLoss();
              }
            })
        .get(0);
  }

  @Test
  void aSampleGoesOnWithThePromptByCharactersOfTheText() throws Exception {
    String sample =
        Ranks.run(
                1,
                group -> {
                  try (Replica replica = fresh(group)) {
                    return replica.sample("It is ", 60);
                  }
                })
            .get(0);
    assertThat(sample).startsWith("It is ").hasSize(66);
    assertThat(TEXT.encode(sample)).hasSize(66);
  }
}
