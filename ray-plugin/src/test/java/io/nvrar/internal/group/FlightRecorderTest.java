package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.internal.binding.Call;
import io.nvrar.internal.binding.Links;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.standalone.FlightMention;
import io.nvrar.standalone.Members;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a failure says of its flight record. */
@Tag("contract")
class FlightRecorderTest {
  private static final Message.MemberInfo HERE = on("A", "x 1");

  @Test
  void aFailureNamesAFileThatIsThereOrSaysThatItWillBe() {
    for (int i = 0; i < 5; i++) {
      try (Members members = Members.join("mention", 2, Members.config().build())) {
        CollectiveGroup group = members.rank(0);
        group.abort("enough");
        // At once, before anything can be written.
        CollectiveException failure = Objects.requireNonNull(group.failure());
        assertThat(failure).hasMessageContaining("enough");
        assertThat(FlightMention.file(failure.getMessage())).exists();
      }
    }
  }

  @Test
  void anExceptionWaitsForTheFileAndNamesIt() {
    try (Members members = Members.join("mention", 2, Members.config().build())) {
      long begin = System.nanoTime();
      members.rank(0).abort("enough");
      Throwable thrown = catchThrowable(() -> members.rank(1).barrier());
      FlightMention.assertAwaited(thrown.getMessage(), begin);
      assertThat(FlightMention.file(thrown.getMessage())).exists();
    }
  }

  private static OpenTicket ticket(String name) {
    return new OpenTicket(
        name,
        2,
        NativeCommunicator.uniqueId(Backend.CPU),
        Members.HOST,
        1,
        new byte[GroupKeys.SECRET_BYTES],
        Members.config().backend(Backend.CPU).gpusPerNode(1).build());
  }

  private static NativeCommunicator prepare(OpenTicket ticket, int rank) {
    return NativeCommunicator.prepare(
        ticket.spec().label(),
        Backend.CPU,
        0,
        rank,
        2,
        ticket.uniqueId(),
        new Links(Members.HOST, true, new byte[Links.SECRET_BYTES]),
        ticket.config());
  }

  private static Message.MemberInfo on(String host, String machine) {
    return new Message.MemberInfo(new ProcessIdentity(host, 7, machine), new byte[0]);
  }

  private static FlightRecorder start(
      OpenTicket ticket, NativeCommunicator member, Message.MemberInfo... members) {
    FlightRecorder recorder = new FlightRecorder(ticket.spec(), 0);
    recorder.start(
        member, new Message.Members(members), Failure.of(Failure.Kind.ABORTED, "enough"));
    return recorder;
  }

  private static FlightRecord recordOf(
      OpenTicket ticket, NativeCommunicator member, Message.MemberInfo... members) {
    FlightRecorder recorder = start(ticket, member, members);
    recorder.await();
    return FlightFile.read(FlightMention.file(recorder.clause()));
  }

  @Test
  void aFileThatIsLateIsNamedInTimeForALossToBeKnownInASecond() throws Exception {
    OpenTicket ticket = ticket("late");
    NativeCommunicator member = prepare(ticket, 0);
    try {
      FlightRecorder first = start(ticket, member, HERE, HERE);
      first.await();
      Path file = FlightMention.file(first.clause());
      Files.delete(file);
      // As of a member that writes, and takes too long: the others wait for it for a second.
      Files.createFile(file.resolveSibling("." + file.getFileName() + ".claim"));
      long begin = System.nanoTime();
      FlightRecorder second = start(ticket, member, HERE, HERE);
      assertThat(second.awaitsMention()).isTrue();
      second.awaitMention();
      assertThat(Duration.ofNanos(System.nanoTime() - begin))
          .isBetween(Duration.ofMillis(250), Duration.ofMillis(900));
      assertThat(second.awaitsMention()).isFalse();
      assertThat(second.clause()).isEqualTo("; flight record: %s (being written)", file);
      assertThat(FlightMention.file(second.clause())).isEqualTo(file);
      second.await();
    } finally {
      member.close();
    }
  }

  @Test
  void aFileThatCannotBeWrittenIsNotNamed(@TempDir Path directory) throws Exception {
    OpenTicket ticket = ticket("nowhere");
    NativeCommunicator member = prepare(ticket, 0);
    Path file = Files.createFile(directory.resolve("file"));
    String before = System.getProperty(FlightFile.DIRECTORY_PROPERTY);
    try {
      for (String nowhere : List.of(file.toString(), "no\0name")) {
        System.setProperty(FlightFile.DIRECTORY_PROPERTY, nowhere);
        FlightRecorder recorder = start(ticket, member, HERE, HERE);
        recorder.await();
        assertThat(recorder.awaitsMention()).isFalse();
        assertThat(recorder.clause()).isEmpty();
      }
    } finally {
      if (before == null) {
        System.clearProperty(FlightFile.DIRECTORY_PROPERTY);
      } else {
        System.setProperty(FlightFile.DIRECTORY_PROPERTY, before);
      }
      member.close();
    }
  }

  @Test
  void hostsOfOneNameAreToldApart() {
    OpenTicket ticket = ticket("namesakes");
    NativeCommunicator member = prepare(ticket, 0);
    FlightRecord record = recordOf(ticket, member, on("localhost", "x 1"), on("localhost", "x 2"));
    member.close();
    assertThat(record.isComplete(0)).isTrue();
    assertThat(record.isComplete(1)).as("the host of rank 1 is another one").isFalse();
  }

  @Test
  void ofRanksOnOtherHostsOnlyTheLastCallsAreKept() throws Exception {
    OpenTicket ticket = ticket("elsewhere");
    NativeCommunicator here = prepare(ticket, 0);
    NativeCommunicator there = prepare(ticket, 1);
    byte[][] descriptors = {here.descriptor(), there.descriptor()};
    BitSet second = BitSet.valueOf(new long[] {0b10});
    BitSet first = BitSet.valueOf(new long[] {0b01});
    ExecutorService thread = Executors.newSingleThreadExecutor();
    try {
      Future<?> connecting = thread.submit(() -> there.connect(descriptors, first));
      here.connect(descriptors, second);
      connecting.get();
      for (int call = 0; call < 100; call++) {
        Future<?> barrier = thread.submit(() -> there.run(new Call().barrier(), 0));
        here.run(new Call().barrier(), 0);
        barrier.get();
        here.refresh(true);
      }
      FlightRecord record = recordOf(ticket, here, on("A", "x 1"), on("B", "x 2"));
      assertThat(record.ranks().get(0).calls()).hasSize(100);
      assertThat(record.ranks().get(1).calls()).hasSize(64);
      assertThat(record.ranks().get(1).last().sequence()).isEqualTo(100);
    } finally {
      here.close();
      there.close();
      thread.shutdown();
    }
  }
}
