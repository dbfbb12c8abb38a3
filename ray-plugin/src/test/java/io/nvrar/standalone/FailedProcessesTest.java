package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.flight.PostMortem;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A member that is a process of its own does harm, and the file that the others name tells who. */
@Tag("contract")
class FailedProcessesTest {
  private static final int WORLD_SIZE = 3;

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();

  @AfterEach
  void endProcesses() {
    threads.shutdownNow();
    forks.close();
  }

  /** What the survivors' exceptions were, once all have failed. */
  private List<CollectiveException> failures(List<Future<CollectiveException>> survivors)
      throws Exception {
    List<CollectiveException> failures = new ArrayList<>();
    for (Future<CollectiveException> survivor : survivors) {
      failures.add(survivor.get());
    }
    return failures;
  }

  private static CollectiveException loop(GroupTicket ticket, int rank) {
    try (CollectiveGroup group = Members.join(ticket, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      while (true) {
        group.allReduce(buffer);
        Members.complete(group);
      }
    } catch (CollectiveException e) {
      return e;
    }
  }

  private List<Future<CollectiveException>> loopAround(GroupTicket ticket, int victim) {
    List<Future<CollectiveException>> survivors = new ArrayList<>();
    for (int r = 0; r < WORLD_SIZE; r++) {
      int rank = r;
      if (r != victim) {
        survivors.add(threads.submit(() -> loop(ticket, rank)));
      }
    }
    return survivors;
  }

  /** The file that every exception names, the same on all. */
  private static FlightRecord record(List<CollectiveException> failures) {
    List<Path> files =
        failures.stream()
            .map(failure -> FlightMention.file(failure.getMessage()))
            .distinct()
            .toList();
    assertThat(files).hasSize(1);
    FlightRecord record = FlightFile.read(files.get(0));
    assertThat(record.ranks()).hasSize(failures.size() + 1);
    assertThat(record.ranks())
        .allSatisfy(
            rank ->
                assertThat(rank.calls())
                    .hasSizeBetween(1, 1024)
                    .isSortedAccordingTo((a, b) -> Long.compare(a.sequence(), b.sequence())));
    return record;
  }

  private static GroupConfig config(int timeoutSeconds) {
    return Members.config().timeout(Duration.ofSeconds(timeoutSeconds)).build();
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void namesTheRankThatWasKilled(int victimRank) throws Exception {
    ForkedMember victim;
    GroupTicket ticket;
    if (victimRank == 0) {
      victim = forks.add(ForkedMember.create("killed", WORLD_SIZE, 5000, "loop"));
      ticket = victim.ticket();
    } else {
      ticket = Groups.createTicket("killed", WORLD_SIZE, config(5), Members.HOST);
      victim = forks.add(ForkedMember.join(ticket, victimRank, "loop"));
    }
    List<Future<CollectiveException>> survivors = loopAround(ticket, victimRank);
    victim.expect("JOINED");
    Thread.sleep(200);
    victim.kill();
    List<CollectiveException> failures = failures(survivors);
    assertThat(failures).hasOnlyElementsOfType(PeerLostException.class);
    FlightRecord record = record(failures);
    PostMortem.Fault fault = PostMortem.of(record);
    assertThat(fault.ranks()).containsExactly(victimRank);
    assertThat(fault.sentence())
        .matches(
            String.format(
                Locale.ROOT,
                "rank %d was lost; it (was in|had finished|had queued) allReduce #\\d+ float32\\[1024\\] SUM \\(one-shot\\)",
                victimRank));
    // The record holds the dead rank's calls, up to the last, and no rank is ahead by more than
    // one.
    assertThat(record.ranks().get(victimRank).pid()).isEqualTo(victim.pid());
    assertThat(record.ranks())
        .extracting(rank -> rank.last().groupSequence())
        .allSatisfy(
            last ->
                assertThat(last)
                    .isBetween(
                        record.ranks().get(victimRank).last().groupSequence() - 1,
                        record.ranks().get(victimRank).last().groupSequence() + 1));
  }

  @Test
  void namesTheRankThatStandsStillInACall() throws Exception {
    GroupTicket ticket = Groups.createTicket("stopped", WORLD_SIZE, config(3), Members.HOST);
    ForkedMember victim = forks.add(ForkedMember.join(ticket, 2, "loop"));
    List<Future<CollectiveException>> survivors = loopAround(ticket, 2);
    victim.expect("JOINED");
    Thread.sleep(200);
    victim.signal("STOP");
    List<CollectiveException> failures = failures(survivors);
    assertThat(failures).hasOnlyElementsOfType(CollectiveTimeoutException.class);
    PostMortem.Fault fault = PostMortem.of(record(failures));
    assertThat(fault.ranks()).containsExactly(2);
    assertThat(fault.sentence()).contains("rank 2", "allReduce #", "float32[1024] SUM");
    victim.signal("CONT");
  }

  @Test
  void namesTheRankWhoseCountDiffers() throws Exception {
    GroupTicket ticket = Groups.createTicket("differ", WORLD_SIZE, config(5), Members.HOST);
    forks.add(ForkedMember.join(ticket, 1, "differ"));
    List<CollectiveException> failures = failures(loopAround(ticket, 1));
    assertThat(failures).hasOnlyElementsOfType(GroupMismatchException.class);
    PostMortem.Fault fault = PostMortem.of(record(failures));
    assertThat(fault.ranks()).containsExactly(1);
    assertThat(fault.sentence())
        .matches(
            "rank 1 differs from the others: rank 1 calls allReduce #4 float32\\[512\\] SUM.*, ranks 0, 2 call allReduce #4 float32\\[1024\\] SUM.*");
  }

  @Test
  void namesTheRankThatDoesNotMakeACall() throws Exception {
    GroupTicket ticket = Groups.createTicket("absent", WORLD_SIZE, config(3), Members.HOST);
    forks.add(ForkedMember.join(ticket, 2, "absent"));
    List<CollectiveException> failures = failures(loopAround(ticket, 2));
    assertThat(failures).hasOnlyElementsOfType(CollectiveTimeoutException.class);
    PostMortem.Fault fault = PostMortem.of(record(failures));
    assertThat(fault.ranks()).containsExactly(2);
    assertThat(fault.sentence())
        .isEqualTo(
            "rank 2 did not enter allReduce #4 float32[1024] SUM (one-shot); it had finished allReduce #3 float32[1024] SUM (one-shot)");
  }

  @Test
  void namesTheRankThatAborts() throws Exception {
    GroupTicket ticket = Groups.createTicket("abort", WORLD_SIZE, config(5), Members.HOST);
    forks.add(ForkedMember.join(ticket, 1, "abort"));
    List<CollectiveException> failures = failures(loopAround(ticket, 1));
    assertThat(failures)
        .hasOnlyElementsOfType(CollectiveException.class)
        .allSatisfy(
            failure ->
                assertThat(failure)
                    .hasMessageContaining("aborted group 'abort': the model is gone"));
    PostMortem.Fault fault = PostMortem.of(record(failures));
    assertThat(fault.ranks()).containsExactly(1);
    assertThat(fault.sentence())
        .isEqualTo(
            "rank 1 ended the group; it had finished allReduce #3 float32[1024] SUM (one-shot)");
  }

  @Test
  void saysThatNoRankIsAtFaultWhenTheDriverIsKilled() throws Exception {
    GroupTicket ticket = Groups.createTicket("driven", WORLD_SIZE, config(5), Members.HOST);
    ForkedMember driver = forks.add(ForkedMember.observe(ticket));
    List<Future<CollectiveException>> members = loopAround(ticket, -1);
    driver.expect("JOINED");
    Thread.sleep(300);
    driver.kill();
    List<CollectiveException> failures = failures(members);
    FlightRecord record = FlightFile.read(FlightMention.file(failures.get(0).getMessage()));
    assertThat(PostMortem.of(record).ranks()).isEmpty();
    assertThat(PostMortem.of(record).sentence()).contains("the driver");
    assertThat(record.ranks())
        .allSatisfy(rank -> assertThat(rank.last().state()).isNotEqualTo(CallRecord.State.NONE));
  }

  @Test
  void aDriverHearsWhatEveryRankWasDoing() throws Exception {
    ForkedMember hub = forks.add(ForkedMember.create("seen", WORLD_SIZE, 5000, "loop"));
    GroupTicket ticket = hub.ticket();
    try (GroupObserver observer = Groups.observe(ticket)) {
      List<Future<CollectiveException>> survivors = loopAround(ticket, 0);
      hub.expect("JOINED");
      Thread.sleep(1500); // the hub says every second what it sees
      hub.kill();
      assertThat(failures(survivors)).hasOnlyElementsOfType(PeerLostException.class);
      await().until(() -> observer.failure() != null);
      assertThat(observer.failure())
          .isInstanceOf(PeerLostException.class)
          .hasMessageMatching(
              String.format(
                  Locale.ROOT,
                  "rank 0 \\(pid %d on host .*\\) of group 'seen' was lost: connection closed; \\d+ ms before rank.* allReduce #\\d+ float32\\[1024\\] SUM.*",
                  hub.pid()));
    }
  }
}
