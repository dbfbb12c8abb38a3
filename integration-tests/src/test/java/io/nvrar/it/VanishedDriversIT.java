package io.nvrar.it;

import static io.nvrar.it.actors.Calls.all;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.it.drivers.VanishingDriver;
import io.nvrar.support.ChildJvm;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import io.ray.api.options.ActorLifetime;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Actors that outlive one driver after the other, none of which closes its group. */
@RayTest
class VanishedDriversIT {

  private static final int ACTORS = 2;

  /** After the first, three of those that leave the actors in a call, and three that do not. */
  private static final int DRIVERS = 7;

  /** Connections that Ray opens or closes by itself; fewer than one of each of three drivers. */
  private static final int FILES_OF_RAY = 2;

  private static final Call SUM = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500);

  private final List<ActorHandle<Probe>> actors = new ArrayList<>();

  @AfterEach
  void killActors() {
    actors.forEach(ActorHandle::kill);
  }

  @Test
  @Timeout(600)
  void actorsKeepNothingOfTheGroupsOfDriversThatVanished(RayCluster cluster)
      throws IOException, InterruptedException {
    for (int i = 0; i < ACTORS; i++) {
      actors.add(
          Ray.actor(Probe::new)
              .setName("outliving-" + i)
              .setLifetime(ActorLifetime.DETACHED)
              .setResource("GPU", 1.0)
              .remote());
    }
    assertThat(all(actors, actor -> actor.task(Probe::held).remote())).containsOnly("");
    List<Integer> openFiles = List.of();
    for (int driver = 0; driver < DRIVERS; driver++) {
      String name = "of-driver-" + driver;
      boolean inCall = driver % 2 == 1;
      runDriver(cluster, name, inCall);
      if (inCall) {
        assertThat(all(actors, actor -> actor.task(Probe::ending).remote()))
            .allSatisfy(end -> assertThat(end).contains("the driver (").contains("was lost"));
      }
      await()
          .atMost(Duration.ofSeconds(10))
          .untilAsserted(
              () ->
                  assertThat(all(actors, actor -> actor.task(Probe::held).remote()))
                      .containsOnly(""));
      for (ActorHandle<Probe> actor : actors) {
        assertThat(Calls.failure(actor.task(Probe::check, name, SUM).remote()))
            .as("the group is not unknown, it has failed")
            .isInstanceOf(CollectiveException.class)
            .hasMessageContaining("was lost");
      }
      if (driver == 0) {
        openFiles = settledOpenFiles();
      }
    }
    awaitNoMoreThan(openFiles);
  }

  private List<Integer> openFiles() {
    return all(actors, actor -> actor.task(Probe::openFiles).remote());
  }

  /** Once Ray has closed its connections to a driver that ended, which takes a while. */
  private List<Integer> settledOpenFiles() throws InterruptedException {
    List<Integer> before;
    List<Integer> open = openFiles();
    do {
      Thread.sleep(2_000);
      before = open;
      open = openFiles();
    } while (!open.equals(before));
    return open;
  }

  private void awaitNoMoreThan(List<Integer> openFiles) {
    await()
        .atMost(Duration.ofSeconds(10))
        .untilAsserted(
            () -> {
              List<Integer> open = openFiles();
              for (int i = 0; i < open.size(); i++) {
                assertThat(open.get(i))
                    .as("actor %s", i)
                    .isLessThanOrEqualTo(openFiles.get(i) + FILES_OF_RAY);
              }
            });
  }

  private static void runDriver(RayCluster cluster, String group, boolean inCall)
      throws IOException, InterruptedException {
    String leftByDriver;
    try (ChildJvm driver =
        ForkedJvm.driver(
            cluster,
            VanishingDriver.class.getName(),
            "outliving",
            Integer.toString(ACTORS),
            group,
            Boolean.toString(inCall))) {
      driver.awaitLine(VanishingDriver.STARTED);
      leftByDriver = DriverFiles.of(driver.pid());
      assertThat(driver.awaitLine(VanishingDriver.WORKS)).isEqualTo("[, ]");
      driver.awaitEnd(Duration.ofSeconds(30));
    }
    DriverFiles.delete(leftByDriver);
  }
}
