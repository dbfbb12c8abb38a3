package io.nvrar.internal.events;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.standalone.Members;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A recording of a production process is all that some operators have. */
class EventsTest {
  @TempDir Path directory;

  private List<RecordedEvent> recorded(Consumer<Recording> settings, Runnable work)
      throws IOException {
    Path file = directory.resolve("recording.jfr");
    try (Recording recording = new Recording()) {
      settings.accept(recording);
      recording.start();
      work.run();
      recording.stop();
      recording.dump(file);
    }
    return RecordingFile.readAllEvents(file).stream()
        .filter(event -> event.getEventType().getCategoryNames().contains("ray-nvrar"))
        .toList();
  }

  private static List<RecordedEvent> named(List<RecordedEvent> events, String name) {
    return events.stream().filter(event -> event.getEventType().getName().equals(name)).toList();
  }

  private static void oneCall(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 250)) {
      group.allReduce(buffer, buffer, ReduceOp.SUM, Algorithm.TWO_SHOT, group.stream());
      group.barrier();
    }
  }

  private static void joinCallAndLeave() {
    try (Members members = Members.join("recorded", 2, Members.config().build())) {
      members.onAll(EventsTest::oneCall);
    }
  }

  @Test
  void aRecordingThatAsksForCallsHasThem() throws IOException {
    List<RecordedEvent> events =
        recorded(recording -> recording.enable(CallEvent.NAME), EventsTest::joinCallAndLeave);
    List<RecordedEvent> calls = named(events, CallEvent.NAME);
    assertThat(calls).hasSize(4);
    assertThat(calls)
        .filteredOn(call -> call.getString("call").startsWith("allReduce"))
        .hasSize(2)
        .allSatisfy(
            call -> {
              assertThat(call.getString("group")).isEqualTo("group 'recorded'");
              assertThat(call.getString("call")).isEqualTo("allReduce float32 two-shot");
              assertThat(call.getLong("bytes")).isEqualTo(1000);
              assertThat(call.getDuration().toNanos()).isPositive();
            })
        .extracting(call -> call.getInt("rank"))
        .containsExactlyInAnyOrder(0, 1);
    assertThat(calls).filteredOn(call -> call.getString("call").equals("barrier")).hasSize(2);
  }

  @Test
  void aRecordingThatDoesNotHasTheLifeOfGroupsOnly() throws IOException {
    List<RecordedEvent> events =
        recorded(
            recording -> {},
            () -> {
              joinCallAndLeave();
              try (Members members = Members.join("ill", 2, Members.config().build())) {
                members.rank(0).abort("enough");
              }
            });
    assertThat(named(events, CallEvent.NAME)).isEmpty();
    assertThat(named(events, "io.nvrar.GroupCreated")).hasSize(4);
    assertThat(named(events, "io.nvrar.GroupClosed")).hasSize(4);
    assertThat(named(events, "io.nvrar.GroupFailed"))
        .hasSize(2)
        .allSatisfy(
            failed -> {
              assertThat(failed.getString("group")).isEqualTo("group 'ill'");
              assertThat(failed.getString("exception")).isEqualTo("CollectiveException");
              assertThat(failed.getString("reason")).contains("enough");
            });
  }

  @Test
  void aLostPeerIsAnEventOfItsOwn() throws IOException {
    List<RecordedEvent> events =
        recorded(
            recording -> {},
            () ->
                GroupEvents.failed(
                    "group 'x'", 1, new io.nvrar.PeerLostException("rank 3 was lost", 3, "h", 77)));
    assertThat(named(events, "io.nvrar.PeerLost"))
        .singleElement()
        .satisfies(
            lost -> {
              assertThat(lost.getInt("lostRank")).isEqualTo(3);
              assertThat(lost.getString("host")).isEqualTo("h");
              assertThat(lost.getLong("pid")).isEqualTo(77);
            });
    assertThat(named(events, "io.nvrar.GroupFailed")).hasSize(1);
  }
}
