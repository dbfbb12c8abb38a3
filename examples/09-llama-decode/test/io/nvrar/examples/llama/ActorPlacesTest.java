package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.examples.llama.weights.ModelException;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Actors are on GPUs where there are enough of them. */
final class ActorPlacesTest {
  private static final boolean HAS_KERNELS = true;

  @Test
  void withoutAWishThereAreAsManyAsGpusUpToFour() {
    assertThat(auto(null, 8, 8)).isEqualTo(new ActorPlaces(4, 1, true, true));
    assertThat(auto(null, 8, 2)).isEqualTo(new ActorPlaces(2, 1, true, true));
    assertThat(auto(null, 8, 3)).isEqualTo(new ActorPlaces(2, 1, true, true));
    assertThat(auto(null, 6, 4)).isEqualTo(new ActorPlaces(3, 1, true, true));
    assertThat(auto(null, 5, 4)).isEqualTo(new ActorPlaces(1, 1, true, true));
  }

  @Test
  void withoutEnoughGpusTheyAreOnCpus() {
    assertThat(auto(null, 8, 0)).isEqualTo(new ActorPlaces(4, 1, false, true));
    assertThat(auto(4, 8, 2)).isEqualTo(new ActorPlaces(4, 1, false, true));
    assertThat(auto(2, 8, 2)).isEqualTo(new ActorPlaces(2, 1, true, true));
    assertThat(ActorPlaces.choose(Backend.AUTO, 2, 2, 8, 2, HAS_KERNELS))
        .isEqualTo(new ActorPlaces(2, 2, false, true));
    assertThat(ActorPlaces.choose(Backend.AUTO, 2, 1, 8, 2, false))
        .isEqualTo(new ActorPlaces(2, 1, false, true));
  }

  @Test
  void theCpuIsTakenWhereItIsWanted() {
    assertThat(ActorPlaces.choose(Backend.CPU, null, 1, 8, 8, HAS_KERNELS))
        .isEqualTo(new ActorPlaces(4, 1, false, false));
  }

  @Test
  void gpusThatAreWantedAndMissingAreRefusedInOneSentence() {
    refused(null, 1, 0, "The backend cuda is not available: no node of the cluster has a GPU.");
    refused(
        4,
        1,
        2,
        "The backend cuda needs a GPU for each of 4 ranks, and no node of the cluster has more than 2.");
    refused(4, 2, 8, "The backend cuda decodes on one node, and there were to be 2.");
    assertThat(ActorPlaces.choose(Backend.CUDA, null, 1, 8, 2, HAS_KERNELS))
        .isEqualTo(new ActorPlaces(2, 1, true, false));
  }

  private static ActorPlaces auto(@Nullable Integer ranks, int heads, int gpus) {
    return ActorPlaces.choose(Backend.AUTO, ranks, 1, heads, gpus, HAS_KERNELS);
  }

  private static void refused(@Nullable Integer ranks, int nodes, int gpus, String sentence) {
    assertThatThrownBy(() -> ActorPlaces.choose(Backend.CUDA, ranks, nodes, 8, gpus, HAS_KERNELS))
        .isInstanceOf(ModelException.class)
        .hasMessage(sentence);
  }
}
