package io.nvrar.it;

import static io.nvrar.it.Calls.all;
import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code test_allgather.py} and {@code test_broadcast.py} of {@code ray.util.collective}. */
@RayTest
class GatherAndBroadcastIT {

  private static List<ActorHandle<Probe>> actors;
  private static RayCollectiveGroup group;

  @BeforeAll
  static void group(RayCluster cluster) {
    actors = cluster.probes();
    group = RayCollectives.createGroup("gather and broadcast", actors);
  }

  @AfterAll
  static void close() {
    group.close();
  }

  @ParameterizedTest
  @ValueSource(ints = {7, 1 << 15})
  void gathersInRankOrder(int count) {
    assertThat(
            all(
                actors,
                actor ->
                    actor.task(Probe::checkAllGather, group.name(), count, "FLOAT32").remote()))
        .containsOnly("");
  }

  @ParameterizedTest
  @CsvSource({"7, 0", "7, 3", "32768, 0", "32768, 2"})
  void broadcastsFromAnyRoot(int count, int root) {
    assertThat(
            all(
                actors,
                actor ->
                    actor
                        .task(Probe::checkBroadcast, group.name(), count, "FLOAT16", root)
                        .remote()))
        .containsOnly("");
  }
}
