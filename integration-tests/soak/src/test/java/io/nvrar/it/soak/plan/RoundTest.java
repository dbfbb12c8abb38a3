package io.nvrar.it.soak.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.LinkSecurity;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.Collective;
import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.call.Shape;
import io.nvrar.standalone.Groups;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RoundTest {
  private static final int ROUNDS = 600;
  private static final Fleet FLEET = new Fleet(8, 3, 0);

  @Test
  void everyProcessDrawsTheSameRound() {
    for (int number = 0; number < 50; number++) {
      assertThat(Round.draw(7, number, FLEET)).isEqualTo(Round.draw(7, number, FLEET));
    }
    assertThat(Round.draw(7, 1, FLEET)).isNotEqualTo(Round.draw(8, 1, FLEET));
  }

  @Test
  void everyFaultInEveryPhaseAndEveryCollectiveIsDrawn() {
    Set<Fault.Kind> kinds = EnumSet.noneOf(Fault.Kind.class);
    Set<Phase> phases = EnumSet.noneOf(Phase.class);
    Set<Collective> collectives = EnumSet.noneOf(Collective.class);
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(1, number, FLEET);
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
    List<Integer> one = List.of(0, 0, 0, 0, 0);
    assertThat(split.groupOf(0, one)).containsExactly(2, 0, 4);
    assertThat(split.groupOf(4, one))
        .isEqualTo(split.groupOf(2, one))
        .isEqualTo(split.groupOf(0, one));
    assertThat(split.groupOf(1, one)).containsExactly(1);
    List<Integer> two = List.of(7, 7, 2, 2, 2);
    assertThat(split.groupOf(0, two)).as("the ranks of a host together").containsExactly(2, 4, 0);
  }

  @Test
  void aSplitNeverComesBetweenTheTwoCallsThatAFaultSwaps() {
    for (int number = 0; number < ROUNDS; number++) {
      GroupPlan group = Round.draw(5, number, FLEET).first();
      if (group.split() != null
          && Set.of(Fault.Kind.SWAPPED_CALLS, Fault.Kind.MISSING_CALL)
              .contains(group.fault().kind())) {
        assertThat(group.split().step()).isNotEqualTo(group.fault().step() + 1);
      }
    }
  }

  @Test
  void groupsOnSeveralHostsAreUnevenPlainAndEncryptedAndTheRanksOfAHostAreTogether() {
    Set<LinkSecurity> securities = EnumSet.noneOf(LinkSecurity.class);
    Set<List<Integer>> nodes = new HashSet<>();
    int linked = 0;
    for (int number = 0; number < ROUNDS; number++) {
      for (GroupPlan group : Round.draw(3, number, FLEET).groups()) {
        assertThat(group.workers().stream().map(FLEET::hostOf).toList()).isEqualTo(group.hosts());
        if (!group.isLinked()) {
          assertThat(group.hosts()).as("on the host with the most workers").containsOnly(0);
          continue;
        }
        linked++;
        assertThat(group.shape()).isEqualTo(Shape.ofHosts(group.hosts()));
        assertThat(group.shape().nodes())
            .hasSize((int) group.hosts().stream().distinct().count())
            .allSatisfy(ranks -> assertThat(ranks).isBetween(1, Groups.MAX_NODE_SIZE));
        nodes.add(group.shape().nodes());
        securities.add(group.config().links().security());
      }
    }
    assertThat(linked).isGreaterThan(ROUNDS / 2);
    assertThat(nodes).contains(List.of(1, 3), List.of(4, 1), List.of(1, 2, 1), List.of(8, 4));
    assertThat(securities).containsExactlyInAnyOrder(LinkSecurity.values());
  }

  @Test
  void aLinkThatIsCutHasEndsOnTwoHosts() {
    Set<Phase> phases = EnumSet.noneOf(Phase.class);
    for (int number = 0; number < ROUNDS; number++) {
      GroupPlan group = Round.draw(6, number, FLEET).first();
      Fault fault = group.fault();
      if (fault.kind() == Fault.Kind.CUT_LINK) {
        assertThat(group.hosts().get(fault.peer())).isNotEqualTo(group.hosts().get(fault.rank()));
        phases.add(fault.phase());
      } else {
        assertThat(fault.peer()).isNegative();
      }
    }
    assertThat(phases).containsExactlyInAnyOrder(Phase.CALL, Phase.SPLIT, Phase.CLOSE);
  }

  @Test
  void onOneHostThereAreNoLinks() {
    Fleet one = new Fleet(8, 1, 0);
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(1, number, one);
      assertThat(round.fault().kind()).isNotEqualTo(Fault.Kind.CUT_LINK);
      assertThat(round.groups()).noneMatch(GroupPlan::isLinked);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 8})
  void groupsOnGpusHaveAHostAProcessAndAGpuForEachRankAndAreAloneThere(int gpus) {
    Fleet fleet = new Fleet(8, 8, gpus);
    Set<Integer> worlds = new HashSet<>();
    Set<Integer> threads = new HashSet<>();
    Set<LinkSecurity> securities = EnumSet.noneOf(LinkSecurity.class);
    Set<Algorithm> algorithms = EnumSet.noneOf(Algorithm.class);
    int linked = 0;
    int onGpus = 0;
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(3, number, fleet);
      assertThat(round.groups().subList(1, round.groups().size())).noneMatch(GroupPlan::isOnGpus);
      GroupPlan group = round.first();
      linked += group.isLinked() ? 1 : 0;
      if (!group.isOnGpus()) {
        assertThat(group.config().backend()).isEqualTo(Backend.CPU);
        continue;
      }
      onGpus++;
      assertThat(group.hosts())
          .doesNotHaveDuplicates()
          .allSatisfy(host -> assertThat(host).isBetween(0, gpus - 1));
      assertThat(group.workers().stream().map(fleet::hostOf).toList()).isEqualTo(group.hosts());
      worlds.add(group.worldSize());
      threads.add(group.config().links().threads());
      securities.add(group.config().links().security());
      Stream.concat(group.calls().stream(), callsOfSplit(group))
          .map(CallSpec::algorithm)
          .forEach(algorithms::add);
    }
    assertThat(onGpus).isBetween(linked / 3, linked * 2 / 3);
    assertThat(worlds)
        .containsExactlyInAnyOrderElementsOf(IntStream.rangeClosed(2, gpus).boxed().toList());
    assertThat(threads).containsExactlyInAnyOrder(1, 2, 4);
    assertThat(securities).containsExactlyInAnyOrder(LinkSecurity.values());
    assertThat(algorithms)
        .containsExactlyInAnyOrder(Algorithm.AUTO, Algorithm.ONE_SHOT, Algorithm.HIERARCHICAL);
  }

  /** Those of the new groups on several hosts. */
  private static Stream<CallSpec> callsOfSplit(GroupPlan group) {
    SplitPlan split = group.split();
    if (split == null) {
      return Stream.of();
    }
    return IntStream.range(0, group.worldSize())
        .filter(rank -> split.colors().get(rank) >= 0)
        .boxed()
        .flatMap(
            rank -> {
              Shape shape = group.shapeOfSplit(split.groupOf(rank, group.hosts()), 0);
              return IntStream.range(0, shape.isOneNode() ? 0 : split.calls())
                  .mapToObj(
                      i ->
                          split.call(split.colors().get(rank), i, shape, group.config().backend()));
            });
  }

  @Test
  void onlyTheSecondHalfOfTheWorkersOfAHostIsEverKilled() {
    for (int number = 0; number < ROUNDS; number++) {
      Round round = Round.draw(2, number, FLEET);
      if (round.fault().kind() == Fault.Kind.KILL) {
        assertThat(round.first().faultyWorker()).isIn(4, 5, 6, 7, 9, 11);
      }
    }
  }

  @Test
  void aDifferingCallCanBeToldApart() {
    Dice dice = Dice.of(3);
    for (int i = 0; i < 5000; i++) {
      int worldSize = dice.between(2, 8);
      CallSpec call = CallSpec.draw(dice, Shape.divided(worldSize, 0), Backend.CPU).joiningAll();
      CallSpec other = call.differing(dice.between(0, 9), worldSize);
      assertThat(other.looksLike(call)).as("%s and %s", call, other).isFalse();
      assertThat(other.joinsAll()).isTrue();
    }
  }
}
