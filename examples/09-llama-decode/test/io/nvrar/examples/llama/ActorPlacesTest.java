package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.PeerLostException;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Actors are on GPUs where there are enough of them. */
final class ActorPlacesTest {
  private static final boolean HAS_KERNELS = true;

  private final List<String> said = new ArrayList<>();

  @Test
  void withoutAWishThereAreAsManyAsGpusUpToFour() {
    assertThat(auto(null, 8, 8)).isEqualTo(new ActorPlaces(4, 1, true, true, ""));
    assertThat(auto(null, 8, 2)).isEqualTo(new ActorPlaces(2, 1, true, true, ""));
    assertThat(auto(null, 8, 3)).isEqualTo(new ActorPlaces(2, 1, true, true, ""));
    assertThat(auto(null, 6, 4)).isEqualTo(new ActorPlaces(3, 1, true, true, ""));
    assertThat(auto(null, 5, 4)).isEqualTo(new ActorPlaces(1, 1, true, true, ""));
  }

  @Test
  void withoutEnoughGpusTheyAreOnCpusAndTheReasonIsKept() {
    assertThat(auto(null, 8, 0))
        .isEqualTo(new ActorPlaces(4, 1, false, true, "no node of the cluster has a GPU"));
    assertThat(auto(4, 8, 2))
        .isEqualTo(
            new ActorPlaces(
                4,
                1,
                false,
                true,
                "each of 4 ranks needs a GPU, and no node of the cluster has more than 2"));
    assertThat(auto(2, 8, 2)).isEqualTo(new ActorPlaces(2, 1, true, true, ""));
    assertThat(ActorPlaces.choose(Backend.AUTO, 2, 2, 8, List.of(2), HAS_KERNELS))
        .isEqualTo(
            new ActorPlaces(
                2,
                2,
                false,
                true,
                "2 ranks on 2 nodes need a GPU each, and of the cluster's nodes 1 have 2"));
    assertThat(ActorPlaces.choose(Backend.AUTO, 2, 1, 8, List.of(2), false))
        .isEqualTo(new ActorPlaces(2, 1, false, true, ActorPlaces.NO_KERNELS));
  }

  @Test
  void theCpuIsTakenWhereItIsWanted() {
    assertThat(ActorPlaces.choose(Backend.CPU, null, 1, 8, List.of(8), HAS_KERNELS))
        .isEqualTo(new ActorPlaces(4, 1, false, false, ""));
  }

  @Test
  void gpusThatAreWantedAndMissingAreRefusedInOneSentence() {
    refused(null, 0, "The backend cuda is not available: no node of the cluster has a GPU.");
    refused(
        4,
        2,
        "The backend cuda is not available: each of 4 ranks needs a GPU, and no node of the cluster has more than 2.");
    assertThat(ActorPlaces.choose(Backend.CUDA, null, 1, 8, List.of(2), HAS_KERNELS))
        .isEqualTo(new ActorPlaces(2, 1, true, false, ""));
  }

  @Test
  void severalNodesHaveTheGpusOfEach() {
    assertThat(onNodes(null, 2, List.of(1, 1))).isEqualTo(new ActorPlaces(2, 2, true, false, ""));
    assertThat(onNodes(null, 2, List.of(8, 2, 8)))
        .isEqualTo(new ActorPlaces(4, 2, true, false, ""));
    assertThat(onNodes(3, 2, List.of(1, 2))).isEqualTo(new ActorPlaces(3, 2, true, false, ""));
    assertThat(onNodes(null, 3, List.of(2, 1, 1)))
        .isEqualTo(new ActorPlaces(4, 3, true, false, ""));
    Map<List<Integer>, String> tooFew =
        Map.of(
            List.of(1, 2), "2 have 2, 1",
            List.of(4), "1 have 4",
            List.of(1, 1, 1), "3 have 1, 1, 1",
            List.of(1, 1, 1, 1, 1, 1, 1, 1, 1), "9 have 1, 1, 1, 1, 1, 1, 1, 1, ...");
    tooFew.forEach(
        (gpus, have) ->
            assertThatThrownBy(() -> onNodes(4, 2, gpus))
                .isInstanceOf(ModelException.class)
                .hasMessage(
                    "The backend cuda is not available: 4 ranks on 2 nodes need a GPU each, and of the cluster's nodes "
                        + have
                        + "."));
  }

  /** No number of ranks divides the heads, or there are fewer nodes with GPUs. */
  @Test
  void nodesWithoutGpusForTheModelLeaveItToTheCpus() {
    assertThat(ActorPlaces.choose(Backend.AUTO, null, 3, 8, List.of(1, 1, 1), HAS_KERNELS))
        .isEqualTo(
            new ActorPlaces(
                4,
                3,
                false,
                true,
                "no number of ranks up to 4 on 3 nodes has a GPU for each and divides 8 heads"));
    assertThat(ActorPlaces.choose(Backend.AUTO, null, 3, 8, List.of(1, 1), HAS_KERNELS))
        .isEqualTo(
            new ActorPlaces(
                4,
                3,
                false,
                true,
                "3 ranks on 3 nodes need a GPU each, and of the cluster's nodes 2 have 1, 1"));
  }

  private static ActorPlaces onNodes(@Nullable Integer ranks, int nodes, List<Integer> gpus) {
    return ActorPlaces.choose(Backend.CUDA, ranks, nodes, 8, gpus, HAS_KERNELS);
  }

  @Test
  void theChoiceIsSaidUnlessItWasTheUsers() {
    assertThat(opened(auto(2, 8, 2))).isEqualTo("2 on GPUs");
    assertThat(said).containsExactly("Decodes on 2 GPUs.");
    said.clear();
    assertThat(opened(auto(1, 8, 2))).isEqualTo("1 on GPUs");
    assertThat(said).containsExactly("Decodes on 1 GPU.");
    said.clear();
    assertThat(opened(auto(null, 8, 0))).isEqualTo("4 on CPUs");
    assertThat(said).containsExactly("Decodes on CPUs: no node of the cluster has a GPU.");
    said.clear();
    opened(ActorPlaces.choose(Backend.CPU, 2, 1, 8, List.of(2), HAS_KERNELS));
    opened(ActorPlaces.choose(Backend.CUDA, 2, 1, 8, List.of(2), HAS_KERNELS));
    assertThat(said).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("refusals")
  void gpusThatCannotDecodeTheModelAreLeftForCpusWithOneSentence(RuntimeException refusal) {
    String opened =
        auto(null, 8, 2)
            .open(
                null,
                places -> {
                  if (places.onGpus()) {
                    throw refusal;
                  }
                  return places.ranks() + " ranks";
                },
                said::add);
    assertThat(opened).isEqualTo("4 ranks");
    assertThat(said).containsExactly("Decodes on CPUs: It cannot.");
  }

  static List<RuntimeException> refusals() {
    return List.of(
        new ModelException("It cannot."),
        new IllegalStateException("It cannot"),
        new BackendUnavailableException("It cannot."),
        new CollectiveException("It cannot."));
  }

  @Test
  void aCrashOnGpusIsNotHiddenByARunOnCpus() {
    PeerLostException crash = new PeerLostException("Rank 1 was lost.", 1, "host", 4711);
    assertThatThrownBy(
            () ->
                auto(null, 8, 2)
                    .open(
                        null,
                        places -> {
                          throw crash;
                        },
                        said::add))
        .isSameAs(crash);
    assertThat(said).isEmpty();
  }

  @Test
  void gpusThatTheUserWantsAreNotLeft() {
    ActorPlaces wanted = ActorPlaces.choose(Backend.CUDA, 2, 1, 8, List.of(2), HAS_KERNELS);
    assertThatThrownBy(
            () ->
                wanted.open(
                    2,
                    places -> {
                      throw new ModelException("It cannot.");
                    },
                    said::add))
        .isInstanceOf(ModelException.class)
        .hasMessage("It cannot.");
    assertThat(said).isEmpty();
  }

  private String opened(ActorPlaces some) {
    return some.open(
        null, places -> places.ranks() + (places.onGpus() ? " on GPUs" : " on CPUs"), said::add);
  }

  private static ActorPlaces auto(@Nullable Integer ranks, int heads, int gpus) {
    return ActorPlaces.choose(
        Backend.AUTO, ranks, 1, heads, gpus == 0 ? List.of() : List.of(gpus), HAS_KERNELS);
  }

  private static void refused(@Nullable Integer ranks, int gpus, String sentence) {
    assertThatThrownBy(() -> onNodes(ranks, 1, gpus == 0 ? List.of() : List.of(gpus)))
        .isInstanceOf(ModelException.class)
        .hasMessage(sentence);
  }
}
