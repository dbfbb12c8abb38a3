package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.LinkSecurity;
import io.nvrar.OwnThreads;
import io.nvrar.internal.LibraryVersion;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.TestLibrary;
import io.nvrar.internal.flight.ClockOffset;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.flight.PostMortem;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rank 0 in this process and rank 1 on {@link OtherHost another host}, where things differ. */
@Tag("slow")
class TwoHostsTest {
  private static final int HOURS = 10;

  /** For every process that it is loaded into, the date is that of some hours ago. */
  private static final String EARLIER =
      String.format(
          Locale.ROOT,
          """
          #define _GNU_SOURCE
          #include <dlfcn.h>
          #include <time.h>
          int clock_gettime(clockid_t clock, struct timespec* time) {
            static int (*real)(clockid_t, struct timespec*);
            if (real == 0) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
            int status = real(clock, time);
            if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec -= %d * 3600;
            return status;
          }
          """,
          HOURS);

  @TempDir private Path scratch;

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();

  @AfterEach
  void nothingStaysBehind() {
    forks.close();
    threads.shutdownNow();
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);
  }

  private static GroupTicket ticket(GroupConfig config) {
    return Groups.createTicket("hosts", 2, config, Members.HOST);
  }

  private ForkedMember rankOne(GroupTicket ticket, String mode, List<String> under)
      throws Exception {
    return forks.add(ForkedMember.join(ticket, 1, mode, how -> how.under(under)));
  }

  private static void sum(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      float[] values = new float[1024];
      Arrays.fill(values, 1);
      buffer.copyFrom(values);
      group.allReduce(buffer);
      buffer.copyTo(values);
      assertThat(values).containsOnly(3);
    }
  }

  @Test
  void withoutLibcryptoOnOneBothSayWhoLacksItAndAGroupThatNeedsNoneIsMade() throws Exception {
    String without =
        String.format(
                Locale.ROOT,
                "V=%s && mount -t tmpfs none $V && mkdir $V/u $V/w && D=/usr/lib/x86_64-linux-gnu && ",
                scratch)
            + "mount -t overlay -o lowerdir=$D,upperdir=$V/u,workdir=$V/w none $D && rm -f $D/libcrypto.so*";
    List<String> there = OtherHost.command(List.of(), without);
    GroupTicket encrypted =
        ticket(Members.config().links(links -> links.security(LinkSecurity.ENCRYPTED)).build());
    Future<CollectiveGroup> zero = threads.submit(() -> Members.join(encrypted, 0));
    ForkedMember one = rankOne(encrypted, "once", there);
    String sentence =
        "encrypted links need OpenSSL's libcrypto, and it cannot be opened: libcrypto.so.3: cannot open shared object file";
    assertThat(Members.failureOf(zero))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("rank 1 (pid ")
        .hasMessageContaining(sentence);
    assertThat(one.expect("FAILED"))
        .contains(BackendUnavailableException.class.getSimpleName(), sentence);
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);

    GroupTicket plain = ticket(Members.config().build());
    Future<CollectiveGroup> again = threads.submit(() -> Members.join(plain, 0));
    ForkedMember other = rankOne(plain, "once", there);
    try (CollectiveGroup group = again.get()) {
      sum(group);
    }
    assertThat(other.expect("SUM")).isEqualTo("SUM 3.0");
  }

  /** It may not open the memory of processes outside of its namespace. */
  @Test
  void aMemberInAnotherNamespaceOfUsersIsLinkedByTcp() throws Exception {
    List<String> there = List.of("unshare", "--map-root-user");
    OtherHost.require("unshare", "--map-root-user", "true");
    GroupTicket ticket = ticket(Members.config().build());
    Future<CollectiveGroup> joining = threads.submit(() -> Members.join(ticket, 0));
    ForkedMember one = rankOne(ticket, "once", there);
    try (CollectiveGroup group = joining.get()) {
      assertThat(group.health().ranks().get(1).link()).isNotNull();
      sum(group);
    }
    assertThat(one.expect("SUM")).isEqualTo("SUM 3.0");
  }

  @Test
  void anotherVersionOnOneIsNamedWithBothRanks() throws Exception {
    Path resource = scratch.resolve("io/nvrar/internal/library-version");
    Files.createDirectories(resource.getParent());
    Files.writeString(resource, "0.0.7");
    GroupTicket ticket = ticket(Members.config().build());
    Future<CollectiveGroup> zero = threads.submit(() -> Members.join(ticket, 0));
    List<String> there = OtherHost.command();
    ForkedMember one =
        forks.add(
            ForkedMember.join(
                ticket,
                1,
                "once",
                how ->
                    how.under(there)
                        .classPath(scratch + ":" + System.getProperty("java.class.path"))));
    Throwable failure = Members.failureOf(zero);
    assertThat(failure)
        .isInstanceOf(GroupMismatchException.class)
        .hasMessageStartingWith("members of group 'hosts' differ in library version: ")
        .hasMessageMatching(".*rank 1 \\(pid [^)]*\\) has 0\\.0\\.7($|, .*)")
        .message()
        .containsPattern(
            "rank 0 \\(pid [^)]*\\) has " + Pattern.quote(LibraryVersion.get()) + "($|, )");
    assertThat(one.expect("FAILED")).endsWith(failure.getMessage());
  }

  /** The wall clock there is hours behind, the other clocks are hours ahead. */
  @Test
  void clocksThatDifferByHoursDifferInNothingButTheDatesOfRecords() throws Exception {
    Path earlier = scratch.resolve("earlier.so");
    Files.write(earlier, TestLibrary.compile(scratch, EARLIER));
    String ahead = String.valueOf(HOURS * 3600);
    List<String> there =
        OtherHost.command(
            List.of("-T", "--monotonic", ahead, "--boottime", ahead),
            "export LD_PRELOAD=" + earlier);
    GroupTicket ticket = ticket(Members.config().build());
    Future<CollectiveGroup> joining = threads.submit(() -> Members.join(ticket, 0));
    ForkedMember one = rankOne(ticket, "abort-when-told", there);
    String here;
    try (CollectiveGroup group = joining.get()) {
      for (int call = 0; call < MemberMain.CALLS; call++) {
        sum(group);
      }
      // One answer may be late.
      await()
          .untilAsserted(
              () ->
                  assertThat(group.health().ranks().get(1).sequence()).isEqualTo(MemberMain.CALLS));
      // Not by failure(), which does not wait for the flight record.
      CompletableFuture<CollectiveException> failed = new CompletableFuture<>();
      group.addFailureListener(failed::complete);
      one.tell();
      assertThat(failed).succeedsWithin(Duration.ofSeconds(5));
      here = String.valueOf(Members.failureOf(threads.submit(() -> sum(group))).getMessage());
    }
    String elsewhere = one.expect("FAILED");
    assertThat(List.of(here, elsewhere))
        .allSatisfy(
            said ->
                assertThat(said)
                    .containsPattern("rank 1 \\(pid [^)]*\\) aborted group 'hosts': the model"));
    FlightRecord ours = recordOf(here);
    FlightRecord theirs = recordOf(elsewhere);
    assertThat(Duration.between(date(theirs), date(ours)))
        .as("that the clocks did differ")
        .isBetween(Duration.ofHours(HOURS - 1), Duration.ofHours(HOURS + 1));
    assertThat(Duration.ofNanos(theirs.header().nanos() - ours.header().nanos()))
        .isBetween(Duration.ofHours(HOURS - 1), Duration.ofHours(HOURS + 1));

    // Both hosts have one name, and write to one directory.
    assertThat(theirs.header().host()).isEqualTo(ours.header().host().replace("rank 0", "rank 1"));
    ClockOffset offset = ClockOffset.between(ours, theirs);
    assertThat(offset.calls()).isGreaterThanOrEqualTo(MemberMain.CALLS);
    assertThat(offset.nanos() + Duration.ofHours(HOURS).toNanos())
        .as("how wrong it is")
        .isBetween(-offset.errorNanos(), offset.errorNanos());
    FlightRecord both = ours.with(theirs);
    for (int rank = 0; rank < 2; rank++) {
      assertThat(both.ranks().get(rank).calls())
          .hasSizeGreaterThanOrEqualTo(MemberMain.CALLS)
          .allSatisfy(call -> assertThat(before(both, call)).isBetween(0L, 60L));
    }
    assertThat(PostMortem.of(both).ranks()).containsExactly(1);
    assertThat(PostMortem.of(both).sentence()).contains("rank 1 ended the group; it had finished");
  }

  private static FlightRecord recordOf(String said) {
    return FlightFile.read(FlightMention.file(said));
  }

  private static Instant date(FlightRecord record) {
    return Instant.parse(record.header().time());
  }

  /** How many seconds before the record was written a call began. */
  private static long before(FlightRecord record, CallRecord call) {
    return Duration.ofNanos(record.header().nanos() - call.beginNanos()).toSeconds();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRecvFromARankThereThatClosesEndsLongBeforeItsTimeout(boolean isClosedBefore)
      throws Exception {
    List<String> there = OtherHost.command();
    Duration patient = Duration.ofSeconds(20);
    GroupTicket ticket = ticket(Members.config().heartbeatLimit(patient).timeout(patient).build());
    Future<CollectiveGroup> joining = threads.submit(() -> Members.join(ticket, 0));
    rankOne(ticket, "once", there); // and closes
    try (CollectiveGroup group = joining.get();
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 4)) {
      sum(group);
      if (isClosedBefore) {
        await().until(() -> group.health().ranks().get(1).closed());
      }
      long start = System.nanoTime();
      assertThat(Members.failureOf(threads.submit(() -> group.recv(buffer, 1))))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageStartingWith(
              "rank 1 closed the group and takes no part in recv #1 float32[4]");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(6));
    }
  }
}
