package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.nvrar.internal.device.host.HostDevice;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.TestBackend;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Members in processes of their own, and what the others learn when one is killed or stopped. */
@Tag("contract")
class MemberLossTest {
  private static final int WORLD_SIZE = 4;

  /** From the kill of a member to the failure of all others. */
  private static final Duration LOSS_LIMIT = Duration.ofSeconds(TestBackend.isCuda() ? 2 : 1);

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<ForkedMember> forked = new ArrayList<>();

  /** How a member of this process ended, and when. */
  private record End(RuntimeException cause, long nanos) {}

  @AfterEach
  void endProcesses() throws Exception {
    threads.shutdownNow();
    for (ForkedMember member : forked) {
      member.close();
    }
  }

  private ForkedMember fork(ForkedMember member) {
    forked.add(member);
    return member;
  }

  /** Reduces until it fails. */
  private Future<End> loop(GroupTicket ticket, int rank) {
    return threads.submit(() -> loop(Members.join(ticket, rank)));
  }

  private static End loop(CollectiveGroup group) {
    try (group;
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      try {
        while (true) {
          group.allReduce(buffer);
          Members.complete(group);
        }
      } catch (RuntimeException e) {
        return new End(e, System.nanoTime()); // before it is closed, which waits for the record
      }
    }
  }

  /** A group in which one rank is a process and the others loop on threads here. */
  private List<Future<End>> loopAround(ForkedMember victim, int victimRank, GroupTicket ticket)
      throws Exception {
    List<Future<End>> survivors = new ArrayList<>();
    for (int r = 0; r < WORLD_SIZE; r++) {
      if (r != victimRank) {
        survivors.add(loop(ticket, r));
      }
    }
    victim.expect("JOINED");
    Thread.sleep(200);
    return survivors;
  }

  private void assertAllLost(
      List<Future<End>> survivors, int rank, long pid, String why, long sinceNanos, Duration limit)
      throws Exception {
    for (Future<End> survivor : survivors) {
      End end = survivor.get();
      assertThat(end.cause())
          .isInstanceOfSatisfying(
              PeerLostException.class,
              lost -> {
                assertThat(lost.lostRank()).isEqualTo(rank);
                assertThat(lost.pid()).isEqualTo(pid);
                assertThat(lost.host()).isEqualTo(ProcessIdentity.current().host());
              })
          .hasMessageMatching(
              String.format(
                  Locale.ROOT,
                  "rank %d \\(pid %d on host .*\\) was lost: %s; this member \\(rank \\d\\) was in .*allReduce #\\d+ float32\\[1024\\] SUM \\(one-shot\\).*; flight record: .*",
                  rank,
                  pid,
                  why));
      assertThat(end.cause()).message().satisfies(MemberLossTest::saysWhatEveryRankWasDoing);
      assertThat(Duration.ofNanos(end.nanos() - sinceNanos)).isLessThan(limit);
    }
  }

  private static void saysWhatEveryRankWasDoing(String message) {
    String doings = message.substring(message.indexOf("; this member"));
    for (int r = 0; r < WORLD_SIZE; r++) {
      assertThat(doings).containsPattern("rank(s [\\d, ]*| )\\b" + r + "\\b");
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void aKilledMemberIsKnownToAllWithinASecond(int rank) throws Exception {
    GroupTicket ticket =
        Groups.createTicket("killed", WORLD_SIZE, Members.config().build(), Members.HOST);
    ForkedMember victim = fork(ForkedMember.join(ticket, rank, "loop"));
    List<Future<End>> survivors = loopAround(victim, rank, ticket);
    long killed = System.nanoTime();
    victim.kill();
    assertAllLost(survivors, rank, victim.pid(), "connection closed", killed, LOSS_LIMIT);
  }

  @Test
  void killedRankZeroIsKnownToAllWithinASecond() throws Exception {
    ForkedMember victim = fork(ForkedMember.create("killed", WORLD_SIZE, 5000, "loop"));
    List<Future<End>> survivors = loopAround(victim, 0, victim.ticket());
    long killed = System.nanoTime();
    victim.kill();
    assertAllLost(survivors, 0, victim.pid(), "connection closed", killed, LOSS_LIMIT);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aStoppedMemberIsExpelledAndLearnsItWhenItWakes(int rank) throws Exception {
    ForkedMember victim;
    GroupTicket ticket;
    if (rank == 0) {
      victim = fork(ForkedMember.create("stopped", WORLD_SIZE, 1000, "loop"));
      ticket = victim.ticket();
    } else {
      GroupConfig config = Members.config().heartbeatLimit(Duration.ofSeconds(1)).build();
      ticket = Groups.createTicket("stopped", WORLD_SIZE, config, Members.HOST);
      victim = fork(ForkedMember.join(ticket, rank, "loop"));
    }
    List<Future<End>> survivors = loopAround(victim, rank, ticket);
    long stopped = System.nanoTime();
    victim.signal("STOP");
    assertAllLost(
        survivors, rank, victim.pid(), "silent for more than 1 s", stopped, Duration.ofSeconds(3));
    victim.signal("CONT");
    assertThat(victim.expect("FAILED"))
        .startsWith("FAILED PeerLostException " + rank)
        .contains("silent for more than 1 s");
    victim.expect("CLOSED");
  }

  @Test
  void aCallThatIsAbortedWaitsForTheReasonOfASlowHub() throws Exception {
    ForkedMember hub = fork(ForkedMember.create("slow", 3, 8000, "loop"));
    GroupTicket ticket = hub.ticket();
    Future<CollectiveGroup> joining = threads.submit(() -> Members.join(ticket, 1));
    Future<CollectiveGroup> joiningToo = threads.submit(() -> Members.join(ticket, 2));
    try (CollectiveGroup one = joining.get();
        CollectiveGroup two = joiningToo.get()) {
      Future<End> waiting = threads.submit(() -> loop(two));
      Thread.sleep(200);
      hub.signal("STOP");
      one.abort("the model is gone");
      Thread.sleep(2500);
      hub.signal("CONT");
      assertThat(waiting.get().cause())
          .hasMessageContaining("aborted group 'slow': the model is gone");
    }
  }

  @Test
  void fourProcessesReduceAndClose() throws Exception {
    ForkedMember zero = fork(ForkedMember.create("processes", WORLD_SIZE, 5000, "once"));
    GroupTicket ticket = zero.ticket();
    List<ForkedMember> all = new ArrayList<>(List.of(zero));
    for (int r = 1; r < WORLD_SIZE; r++) {
      all.add(fork(ForkedMember.join(ticket, r, "once")));
    }
    for (ForkedMember member : all) {
      assertThat(member.expect("SUM")).isEqualTo("SUM 10.0");
      member.expect("CLOSED");
    }
  }

  @Test
  void aDriverThatIsKilledTakesTheGroupWithIt() throws Exception {
    GroupTicket ticket = Groups.createTicket("driven", 2, Members.config().build(), Members.HOST);
    ForkedMember driver = fork(ForkedMember.observe(ticket));
    Future<End> zero = loop(ticket, 0);
    Future<End> one = loop(ticket, 1);
    driver.expect("JOINED");
    Thread.sleep(200);
    driver.kill();
    for (Future<End> member : List.of(zero, one)) {
      assertThat(member.get().cause())
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageMatching(
              String.format(
                  Locale.ROOT,
                  "group 'driven' was aborted: the driver \\(pid %d on host .*\\) was lost: connection closed; this member .*",
                  driver.pid()));
    }
  }

  @Test
  @Tag("host") // it is the host's device that is broken
  void aMemberWhoseClassesDoNotLinkTellsTheOthers(@TempDir Path broken) throws Exception {
    Path host = broken.resolve(HostDevice.class.getName().replace('.', '/') + ".class");
    Files.createDirectories(host.getParent());
    Files.createFile(host);
    GroupTicket ticket = Groups.createTicket("broken", 2, Members.config().build(), Members.HOST);
    fork(ForkedMember.join(ticket, 1, "once", "-Xbootclasspath/a:" + broken));
    assertThat(Members.failureOf(loop(ticket, 0)))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageMatching(
            "rank 1 \\(pid .*\\) could not join group 'broken': java.lang.ClassFormatError: .*");
  }

  @Test
  @Tag("host") // nothing of it concerns a device
  void anotherBuildOfTheLibraryIsRefusedOnAllMembers(@TempDir Path otherDir) throws Exception {
    Path other =
        Path.of(
            System.getProperty(
                "nvrar.test.otherBuild", "../native/build/release/test/libnvrar_other_build.so"));
    String missing = other + " is missing: build the CMake target nvrar_other_build";
    if (Boolean.getBoolean("CI") || "true".equals(System.getenv("CI"))) {
      assertThat(other).as(missing).exists(); // where everything is built, a skip is a hole
    }
    Assumptions.assumeTrue(Files.exists(other), missing);
    Files.copy(other, otherDir.resolve("libnvrar.so"));
    GroupTicket ticket = Groups.createTicket("builds", 2, Members.config().build(), Members.HOST);
    ForkedMember one = fork(ForkedMember.join(ticket, 1, "once", "-Dnvrar.native.dir=" + otherDir));
    assertThat(Members.failureOf(loop(ticket, 0)))
        .isInstanceOf(GroupMismatchException.class)
        .hasMessageMatching(
            "members of group 'builds' differ in native build: rank \\d \\(pid .*\\) has .*, rank \\d \\(pid .*\\) has .*");
    assertThat(one.expect("FAILED")).contains("GroupMismatchException", "differ in native build");
  }
}
