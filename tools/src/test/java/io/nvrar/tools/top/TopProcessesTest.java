package io.nvrar.tools.top;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.awaitility.Awaitility.await;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.internal.flight.Announcement;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.CommandLines;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@code nvrar top} sees of two processes. */
@Tag("slow")
class TopProcessesTest {
  @TempDir private Path scratch;
  private final CommandLines nvrar = new CommandLines();
  private @Nullable String before;

  @BeforeEach
  void watchOnlyThese() {
    before = System.getProperty(Announcement.DIRECTORY_PROPERTY);
    System.setProperty(Announcement.DIRECTORY_PROPERTY, directory().toString());
  }

  @AfterEach
  void watchAllAgain() {
    if (before == null) {
      System.clearProperty(Announcement.DIRECTORY_PROPERTY);
    } else {
      System.setProperty(Announcement.DIRECTORY_PROPERTY, before);
    }
  }

  private Path directory() {
    return scratch.resolve("top");
  }

  private ChildJvm start(String ticket, int rank) throws IOException {
    return ChildJvm.of(WatchedMember.class.getName(), ticket, String.valueOf(rank))
        .options("-D" + Announcement.DIRECTORY_PROPERTY + "=" + directory())
        .start();
  }

  private JsonObject look(double interval) {
    assertThat(nvrar.run("top", "--json", "--count", "1", "--interval", String.valueOf(interval)))
        .as(nvrar.err())
        .isZero();
    JsonArray groups =
        JsonParser.parseString(nvrar.out()).getAsJsonObject().getAsJsonArray("groups");
    return groups.isEmpty() ? new JsonObject() : groups.get(0).getAsJsonObject();
  }

  private static JsonObject rank(JsonObject group, int rank) {
    return group.getAsJsonArray("ranks").get(rank).getAsJsonObject();
  }

  private static String text(JsonObject object, String name) {
    return object.get(name).getAsString();
  }

  private static double number(JsonObject object, String name) {
    return object.get(name).getAsDouble();
  }

  @Test
  void callsWaitsStopsAndDeathsAreSeenFromOutside() throws Exception {
    try (ChildJvm zero = start("create", 0);
        ChildJvm one = start(zero.awaitLine("TICKET "), 1)) {
      zero.awaitLine("JOINED");
      one.awaitLine("JOINED");

      JsonObject busy = look(0.5);
      assertThat(text(busy, "group")).isEqualTo("watched");
      for (int rank = 0; rank < 2; rank++) {
        double rate = number(rank(busy, rank), "callsPerSecond");
        assertThat(rate).isBetween(20.0, 1000.0);
        assertThat(number(rank(busy, rank), "bytesPerSecond"))
            .isCloseTo(rate * WatchedMember.ELEMENTS * 4, within(1.0));
        assertThat(number(rank(busy, rank), "inCalls")).isBetween(0.0, 1.0);
      }
      assertThat(number(rank(busy, 1), "pid")).isEqualTo((double) one.pid());

      one.say("pause");
      one.awaitLine("PAUSED");
      Thread.sleep(1_000);
      JsonObject waiting = look(0.2);
      assertThat(text(waiting, "state")).isEqualTo("waiting");
      assertThat(text(waiting, "problem"))
          .matches(
              "rank 0 in allReduce #\\d+ float32\\[1024] SUM .*for \\d\\.\\d s, without rank 1");
      assertThat(text(rank(waiting, 0), "state")).isEqualTo("running");
      assertThat(number(rank(waiting, 0), "seconds")).isBetween(1.0, 30.0);
      assertThat(number(rank(waiting, 0), "inCalls")).isCloseTo(1, within(0.01));
      assertThat(text(rank(waiting, 1), "state")).isEqualTo("idle");
      assertThat(number(rank(waiting, 1), "inCalls")).isZero();
      assertThat(number(rank(waiting, 1), "callsPerSecond")).isZero();

      one.signal("STOP");
      assertThat(text(rank(look(0.1), 1), "state")).isEqualTo("stopped");
      one.signal("CONT");

      one.signal("KILL");
      one.awaitEnd(Duration.ofSeconds(10));
      zero.awaitEnd(Duration.ofSeconds(10)); // its call fails, and with it the process
    }
    assertThat(look(0.1).keySet()).as("no process of the group is left").isEmpty();
  }

  @Test
  void aFailedGroupIsShownWithItsReasonUntilItIsClosedAndThenNothingIsLeft() throws Exception {
    try (ChildJvm zero = start("create", 0);
        ChildJvm one = start(zero.awaitLine("TICKET "), 1)) {
      zero.awaitLine("JOINED");
      one.awaitLine("JOINED");
      zero.say("pause");
      zero.awaitLine("PAUSED");
      one.signal("KILL");
      one.awaitEnd(Duration.ofSeconds(10));
      JsonObject failed =
          await()
              .atMost(Duration.ofSeconds(10))
              .until(() -> look(0.5), group -> group.toString().contains("was lost"));
      assertThat(text(failed, "state")).isEqualTo("failed");
      assertThat(text(failed, "problem"))
          .contains("rank 1 (pid " + one.pid() + " on host")
          .contains("was lost");
      assertThat(text(rank(failed, 0), "state")).isEqualTo("failed");
      assertThat(text(rank(failed, 1), "state")).isEqualTo("gone");
      assertThat(nvrar.run("top", "--count", "1", "--interval", "0.1")).isZero();
      assertThat(nvrar.out()).contains("group 'watched'").contains(": failed, rank 1 (pid ");
      zero.say("close");
      zero.awaitEnd(Duration.ofSeconds(10));
    }
    try (Stream<Path> left = Files.list(directory())) {
      List<String> names = left.map(file -> file.getFileName().toString()).toList();
      assertThat(names).as("of the killed rank only").hasSize(1);
      assertThat(names.get(0)).contains("-1-");
    }
    assertThat(look(0.1).keySet()).isEmpty();
  }

  @Test
  void aFileThatIsNoMembersIsPassedOver() throws IOException {
    Files.createDirectories(directory());
    Files.write(directory().resolve("x.member"), "no JSON".getBytes(UTF_8));
    Files.write(directory().resolve("y.member"), "{\"nvrarMember\":9}".getBytes(UTF_8));
    assertThat(look(0.1).keySet()).isEmpty();
  }
}
