package io.nvrar.it;

import static io.nvrar.it.actors.Calls.start;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.Main;
import io.ray.api.ObjectRef;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What {@code nvrar top} sees of groups that another driver has made. */
@RayTest
class TopIT {
  private static final String GROUP = "seen-by-top";

  @Test
  void anotherDriverSeesTheCallsOfBusyActorsAndAKilledRank(RayCluster cluster) throws Exception {
    try (RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).gpus(1).create(2);
        RayCollectiveGroup group = RayCollectives.createGroup(GROUP, actors.handles())) {
      long pid = actors.handles().get(1).task(Probe::pid).remote().get();
      // No actor answers a task of Ray's from here on.
      List<ObjectRef<Long>> calls =
          start(actors.handles(), actor -> actor.task(Probe::reduceForever, GROUP).remote());
      List<JsonObject> looks = top(cluster);
      assertThat(looks).hasSize(2);
      for (JsonObject look : looks) {
        JsonObject seen = group(look);
        assertThat(seen.get("worldSize").getAsInt()).isEqualTo(2);
        assertThat(seen.get("state").getAsString()).isEqualTo("ok");
        for (JsonElement rank : seen.getAsJsonArray("ranks")) {
          assertThat(number(rank, "callsPerSecond")).isPositive();
          assertThat(number(rank, "bytesPerSecond")).isPositive();
          assertThat(number(rank, "inCalls")).isPositive();
        }
        assertThat(number(seen.getAsJsonArray("ranks").get(1), "pid")).isEqualTo((double) pid);
      }

      actors.handles().get(1).kill();
      await().atMost(Duration.ofSeconds(5)).until(() -> group.failure() != null);
      JsonObject failed = group(top(cluster).get(1));
      assertThat(failed.get("state").getAsString()).isEqualTo("failed");
      assertThat(failed.get("problem").getAsString())
          .contains("rank 1 (pid " + pid)
          .contains("was lost");
      JsonElement lost = failed.getAsJsonArray("ranks").get(1);
      assertThat(lost.getAsJsonObject().get("state").getAsString()).isEqualTo("gone");
      assertThat(calls).hasSize(2);
    }
    assertThat(top(cluster))
        .as("closed groups")
        .allSatisfy(look -> assertThat(names(look)).doesNotContain(GROUP));
  }

  private static double number(JsonElement rank, String name) {
    return rank.getAsJsonObject().get(name).getAsDouble();
  }

  private static List<String> names(JsonObject look) {
    List<String> names = new ArrayList<>();
    look.getAsJsonArray("groups")
        .forEach(group -> names.add(group.getAsJsonObject().get("group").getAsString()));
    return names;
  }

  private static JsonObject group(JsonObject look) {
    for (JsonElement group : look.getAsJsonArray("groups")) {
      if (group.getAsJsonObject().get("group").getAsString().equals(GROUP)) {
        return group.getAsJsonObject();
      }
    }
    throw new AssertionError("no group " + GROUP + " in " + look);
  }

  private static List<JsonObject> top(RayCluster cluster) throws Exception {
    try (ChildJvm jvm =
        ForkedJvm.driver(
            cluster,
            Main.class.getName(),
            "top",
            "--address",
            cluster.address(),
            "--json",
            "--count",
            "2",
            "--interval",
            "0.5")) {
      List<JsonObject> looks = new ArrayList<>();
      for (int i = 0; i < 2; i++) {
        looks.add(
            JsonParser.parseString("{\"time\"" + jvm.awaitLine("{\"time\"")).getAsJsonObject());
      }
      String leftByDriver = DriverFiles.of(jvm.pid());
      jvm.awaitEnd(Duration.ofSeconds(30));
      assertThat(jvm.exitCode()).isZero();
      DriverFiles.delete(leftByDriver);
      return looks;
    }
  }
}
