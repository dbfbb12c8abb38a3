package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class ShardTest {

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void everythingIsHeldOnceByExactlyOneRankForEveryWorldSize(int worldSize) {
    for (int odd : List.of(1, 5, 8, 97, 101, 263)) {
      LlamaConfig config = config(worldSize * 3, worldSize * 3, odd, odd + 1);
      List<Shard> shards = shards(config, worldSize);
      assertCovers(shards.stream().map(Shard::heads).toList(), config.heads());
      assertCovers(shards.stream().map(Shard::intermediate).toList(), odd);
      assertCovers(shards.stream().map(Shard::vocabulary).toList(), odd + 1);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void unevenPartsDifferByOneAtMostAndRankZeroHasTheLargest(int worldSize) {
    for (int whole = 0; whole < 40; whole++) {
      int largest = Range.part(whole, 0, worldSize).count();
      for (int rank = 0; rank < worldSize; rank++) {
        assertThat(Range.part(whole, rank, worldSize).count()).isBetween(largest - 1, largest);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "8, 2", "8, 8", "8, 1", "24, 8", "24, 3", "12, 4", "6, 3", "7, 1", "5, 5", "40, 8", "32, 4"
  })
  void aRankHoldsTheKeyValueHeadsOfItsQueryHeadsAndNoOthers(int heads, int keyValueHeads) {
    for (int worldSize = 1; worldSize <= 8; worldSize++) {
      if (heads % worldSize != 0) {
        continue;
      }
      LlamaConfig config = config(heads, keyValueHeads, 16, 16);
      for (Shard shard : shards(config, worldSize)) {
        List<Integer> needed = new ArrayList<>();
        for (int head = shard.heads().first(); head < shard.heads().end(); head++) {
          int shared = head / (heads / keyValueHeads);
          if (!needed.contains(shared)) {
            needed.add(shared);
          }
        }
        Range held = shard.keyValueHeads();
        assertThat(held.first()).isEqualTo(needed.get(0));
        assertThat(held.count()).isEqualTo(needed.size());
      }
    }
  }

  @Test
  void ranksShareAKeyValueHeadWhereThereAreFewerThanRanks() {
    LlamaConfig config = config(8, 2, 16, 16);
    assertThat(shards(config, 8).stream().map(shard -> shard.keyValueHeads().first()))
        .containsExactly(0, 0, 0, 0, 1, 1, 1, 1);
  }

  @Test
  void aRankMayHaveNoPartOfASmallMlpOrVocabulary() {
    Shard last = Shard.of(config(8, 8, 3, 5), 7, 8);
    assertThat(last.intermediate().count()).isZero();
    assertThat(last.vocabulary().count()).isZero();
  }

  @Test
  void aWorldSizeThatDoesNotDivideTheHeadsIsRefusedWithBothNumbers() {
    assertThatThrownBy(() -> Shard.of(config(8, 2, 16, 16), 0, 3))
        .isInstanceOf(ModelException.class)
        .hasMessage("The model has 8 attention heads, which 3 ranks do not divide.");
  }

  private static List<Shard> shards(LlamaConfig config, int worldSize) {
    List<Shard> shards = new ArrayList<>();
    for (int rank = 0; rank < worldSize; rank++) {
      shards.add(Shard.of(config, rank, worldSize));
    }
    return shards;
  }

  private static void assertCovers(List<Range> parts, int whole) {
    int next = 0;
    for (Range part : parts) {
      assertThat(part.first()).isEqualTo(next);
      next = part.end();
    }
    assertThat(next).isEqualTo(whole);
  }

  private static LlamaConfig config(int heads, int keyValueHeads, int intermediate, int words) {
    return new LlamaConfig(
        words,
        16,
        intermediate,
        1,
        heads,
        keyValueHeads,
        4,
        64,
        1e-5f,
        new RopeScaling.Unscaled(10000),
        true,
        false,
        false,
        false,
        List.of());
  }
}
