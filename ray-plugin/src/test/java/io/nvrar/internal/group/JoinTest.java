package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.OwnThreads;
import io.nvrar.PeerLostException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.RawClient;
import io.nvrar.standalone.TestBackend;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
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

@Tag("contract")
@Tag("slow")
class JoinTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void nothingStaysBehind() {
    threads.shutdownNow();
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);
  }

  private Future<CollectiveGroup> join(GroupTicket ticket, int rank) {
    return threads.submit(() -> Members.join(ticket, rank));
  }

  private static GroupTicket ticket(int worldSize) {
    return Groups.createTicket("join", worldSize, Members.config().build(), Members.HOST);
  }

  @Test
  void aPortInUseIsNamedAndFreeAfterwards() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      GroupConfig config = Members.config().rendezvousPort(taken.getLocalPort()).build();
      assertThatThrownBy(() -> Groups.createTicket("join", 1, config, Members.HOST))
          .isInstanceOf(CollectiveException.class)
          .hasMessage("rendezvous port " + taken.getLocalPort() + " on 127.0.0.1 is in use");
    }
  }

  @Test
  void anObserverThatGetsNoAnswerTriesNoLongerThanItWasTold() throws Exception {
    try (ServerSocket mute = new ServerSocket(0, 9, InetAddress.getLoopbackAddress())) {
      OpenTicket ticket =
          new OpenTicket(
              "mute",
              1,
              NativeCommunicator.uniqueId(TestBackend.backend()),
              Members.HOST,
              mute.getLocalPort(),
              Crypto.random(GroupKeys.SECRET_BYTES),
              Members.config().joinTimeout(Duration.ofHours(1)).build());
      GroupTicket given = ticket.toGroupTicket();
      assertThatThrownBy(() -> Groups.observe(given, Duration.ofSeconds(1)))
          .isInstanceOf(CollectiveTimeoutException.class)
          .hasMessageContaining("could not be reached by an observer within 1 s");
    }
  }

  @Test
  void aFixedPortAndANameCanBeUsedAgainAtOnce() throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    for (int round = 0; round < 3; round++) {
      try (Members members =
          Members.join("again", 2, Members.config().rendezvousPort(port).build())) {
        members.onAll(CollectiveGroup::barrier);
      }
    }
  }

  @Test
  void badArgumentsOfATicketAreNamed() {
    GroupConfig config = Members.config().build();
    assertThatThrownBy(() -> Groups.createTicket("x", 513, config, Members.HOST))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("world size is 513, must be 1 to 512");
    assertThatThrownBy(() -> Groups.createTicket("", 1, config, Members.HOST))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> Groups.createTicket("x", 1, config, "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("0.0.0.0");
    assertThatThrownBy(() -> Groups.createTicket("x", 1, config, "192.0.2.1"))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the rendezvous cannot be on 192.0.2.1: this machine has no such address");
  }

  @Test
  void aRingTooSmallForSeveralNodesIsRefusedBeforeAnythingExists() {
    GroupConfig.Builder config = Members.config().gpusPerNode(2);
    GroupConfig small = config.ringBytes(28672).build();
    // Nor is the address looked up, which is no machine's.
    assertThatThrownBy(() -> Groups.createTicket("small", 3, small, "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "ringBytes is 28672, must be 0 or at least 32768 for several nodes (3 members, 2 per node)");
    try (Members oneNode = Members.join("one node", 2, small)) {
      oneNode.onAll(CollectiveGroup::barrier);
    }
    GroupConfig least = config.ringBytes(32768).build();
    try (Members twoNodes = Members.join("two nodes", 3, least)) {
      twoNodes.onAll(CollectiveGroup::barrier);
    }
  }

  @Test
  void nodesThatAreTooLargeOrTooManyAreRefusedBeforeAnythingExists() {
    GroupConfig.Builder config = Members.config().backend(Backend.CPU);
    // Nor is the address looked up, which is no machine's.
    assertThatThrownBy(() -> Groups.createTicket("x", 18, config.gpusPerNode(9).build(), "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "gpusPerNode is 9, which makes 2 nodes of 18 members; a group has at most 64 nodes of at most 8");
    assertThatThrownBy(() -> Groups.createTicket("x", 65, config.gpusPerNode(1).build(), "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "gpusPerNode is 1, which makes 65 nodes of 65 members; a group has at most 64 nodes of at most 8");
    GroupConfig small = config.gpusPerNode(8).ringBytes(98304).build();
    assertThatThrownBy(() -> Groups.createTicket("x", 128, small, "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "ringBytes is 98304, must be 0 or at least 131072 for several nodes (128 members, 8 per node)");
    GroupConfig onGpus = config.gpusPerNode(0).ringBytes(0).backend(Backend.CUDA).build();
    assertThatThrownBy(() -> Groups.createTicket("x", 65, onGpus, "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("world size is 65, must be 1 to 64 on GPUs");
    GroupConfig divided = onGpus.toBuilder().gpusPerNode(8).build();
    assertThatThrownBy(() -> Groups.createTicket("x", 64, divided, "0.0.0.0"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "gpusPerNode is 8, must be 0 for more than 8 members on GPUs, which need several hosts");
  }

  @Test
  void aSecondRankOneThatFailsBeforeItGreetsHarmsNobody() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> joining = join(given, 0);
    Future<CollectiveGroup> joiningToo = join(given, 1);
    CollectiveGroup zero = joining.get();
    CollectiveGroup one = joiningToo.get();
    try (FramedChannel second =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
            .dial(Duration.ofSeconds(5))) {
      second.send(Failure.of(Failure.Kind.UNAVAILABLE, "no library here"));
      second.send(new Message.Goodbye());
      Thread.sleep(500);
      Future<?> barrier = threads.submit(() -> Members.barrier(zero));
      Members.barrier(one);
      barrier.get();
    } finally {
      Future<?> closing = threads.submit(() -> zero.close());
      one.close();
      closing.get();
    }
  }

  @Test
  void aRankOutOfRangeIsRefused() {
    GroupTicket ticket = ticket(2);
    assertThatThrownBy(() -> Members.join(ticket, 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("rank is 2, the ranks of group 'join' are 0 to 1");
    Groups.discardTicket(ticket);
  }

  @Test
  void missingMembersAreNamedToAll() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(1)).build();
    GroupTicket ticket = Groups.createTicket("join", 4, config, Members.HOST);
    Future<CollectiveGroup> zero = join(ticket, 0);
    Future<CollectiveGroup> two = join(ticket, 2);
    for (Future<CollectiveGroup> member : List.of(zero, two)) {
      assertThat(Members.failureOf(member))
          .isInstanceOfSatisfying(
              CollectiveTimeoutException.class,
              e -> assertThat(e.missingRanks()).containsExactly(1, 3))
          .hasMessage("ranks 1, 3 of group 'join' did not join within 1 s");
    }
  }

  @Test
  void ofMissingMembersThoseThatHaveComeAreNamedWithTheirAddresses() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(1)).build();
    GroupTicket given = Groups.createTicket("join", 4, config, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel one = RawClient.admitted(ticket, 1, faraway(ticket));
        FramedChannel two =
            new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 2)
                .dial(Duration.ofSeconds(5))) {
      two.send(new Message.Heartbeat());
      assertThat(Members.failureOf(zero))
          .isInstanceOfSatisfying(
              CollectiveTimeoutException.class,
              e -> assertThat(e.missingRanks()).containsExactly(1, 2, 3))
          .hasMessage(
              "ranks 1, 2, 3 of group 'join' did not join within 1 s; of these, rank 1 (pid 99 on host faraway) has come from 127.0.0.1, rank 2 has come from 127.0.0.1");
      assertThat(one.channel().isOpen()).isTrue();
    }
  }

  @Tag("host") // GPUs have no groups of so many ranks
  @ParameterizedTest
  @ValueSource(ints = {1, 100})
  void ofTheLargestGroupTheMissingMembersAreNamedInAShortSentence(int come) throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(5)).build();
    GroupTicket given = Groups.createTicket("join", 512, config, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    List<FramedChannel> others = new ArrayList<>();
    try {
      for (int rank = 1; rank <= come; rank++) {
        others.add(RawClient.admitted(ticket, rank, faraway(ticket)));
      }
      assertThat(Members.failureOf(zero))
          .isInstanceOf(CollectiveTimeoutException.class)
          .hasMessageStartingWith(
              "ranks 1 to 511 of group 'join' did not join within 5 s; of these, rank 1 ")
          .message()
          .hasSizeLessThan(600)
          .doesNotContain("...")
          .satisfies(
              text -> assertThat(text.endsWith(" and so have 96 more")).isEqualTo(come == 100));
    } finally {
      for (FramedChannel other : others) {
        other.close();
      }
    }
  }

  @Test
  void aTicketThatNobodyUsesExpires() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofMillis(300)).build();
    GroupTicket ticket = Groups.createTicket("join", 2, config, Members.HOST);
    nothingStaysBehind();
    assertThatThrownBy(() -> Members.join(ticket, 0)).isInstanceOf(GroupMismatchException.class);
    assertThatThrownBy(() -> Members.join(ticket, 1))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("no rendezvous at 127.0.0.1:");
  }

  @Test
  void aDiscardedTicketEndsTheWaitOfThoseWhoCame() throws Exception {
    GroupTicket ticket = ticket(2);
    Future<CollectiveGroup> one = join(ticket, 1);
    Thread.sleep(2_000); // until rank 1 has come: one that comes later finds the door closed
    Groups.discardTicket(ticket);
    assertThat(Members.failureOf(one))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the ticket of group 'join' was discarded");
  }

  @Test
  void theSecondOfOneRankIsRefusedAndTheFirstStays() throws Exception {
    GroupTicket ticket = ticket(3);
    Future<CollectiveGroup> one = join(ticket, 1);
    Future<CollectiveGroup> two = join(ticket, 2);
    Thread.sleep(2_000); // until rank 1 has come: of two, the one that comes later is refused
    long pid = ProcessHandle.current().pid();
    assertThatThrownBy(() -> Members.join(ticket, 1))
        .isInstanceOf(GroupMismatchException.class)
        .hasMessageMatching(
            String.format(
                Locale.ROOT,
                "rank 1 of group 'join' is taken by pid %d on host .*, so pid %d on host .* cannot join as the same rank",
                pid,
                pid));
    closeAll(join(ticket, 0), one, two);
  }

  @Test
  void whoWaitsForARankIsToldThatItsProcessCameAsAnother() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(2)).build();
    GroupTicket given = Groups.createTicket("join", 3, config, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    Message.Hello own = RawClient.hello(ticket);
    try (FramedChannel one = RawClient.admitted(ticket, 1, own);
        FramedChannel again = RawClient.admitted(ticket, 1, faraway(ticket))) {
      assertThat(RawClient.firstMessage(again)).isInstanceOf(Failure.class);
      assertThat(one.channel().isOpen()).isTrue();
      assertThat(Members.failureOf(zero))
          .isInstanceOf(CollectiveTimeoutException.class)
          .hasMessageStartingWith("ranks 1, 2 of group 'join' did not join within 2 s; of these, ")
          .hasMessageContaining(
              "; pid 99 on host faraway came as rank 1, too, which is " + own.process());
    }
  }

  private void closeAll(Future<?>... members) throws Exception {
    List<Future<?>> closing = new ArrayList<>();
    for (Future<?> member : members) {
      closing.add(
          threads.submit(
              () -> {
                ((CollectiveGroup) member.get()).close();
                return null;
              }));
    }
    for (Future<?> one : closing) {
      one.get();
    }
  }

  @Test
  void aSecondRankZeroIsRefused() throws Exception {
    GroupTicket ticket = ticket(2);
    Future<CollectiveGroup> zero = join(ticket, 0);
    await()
        .until(
            () ->
                Thread.getAllStackTraces().keySet().stream()
                    .anyMatch(t -> t.getName().equals("nvrar-join-0")));
    assertThatThrownBy(() -> Members.join(ticket, 0))
        .isInstanceOf(GroupMismatchException.class)
        .hasMessageContaining("rank 0 of group 'join' joins once");
    closeAll(zero, join(ticket, 1));
  }

  private void mismatch(Message.Hello other, String... parts) throws Exception {
    GroupTicket given = ticket(3);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    Future<CollectiveGroup> one = join(given, 1);
    try (FramedChannel two = RawClient.admitted(ticket, 2, other)) {
      assertThat(RawClient.firstMessage(two))
          .isInstanceOfSatisfying(
              Failure.class,
              failure -> assertThat(failure.kind()).isEqualTo(Failure.Kind.MISMATCH));
      for (Future<CollectiveGroup> member : List.of(zero, one)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContainingAll(parts);
      }
    }
  }

  @Test
  void anotherBuildFailsAllAndBothAreNamed() throws Exception {
    OpenTicket ticket = OpenTicket.of(ticketToDiscard());
    Message.Hello own = RawClient.hello(ticket);
    mismatch(
        new Message.Hello(own.process(), own.libraryVersion(), "0123-other", 3, own.backend()),
        "differ in native build",
        "rank 2 (pid ",
        "0123-other",
        own.nativeBuild());
  }

  @Test
  void anotherWorldSizeFailsAll() throws Exception {
    OpenTicket ticket = OpenTicket.of(ticketToDiscard());
    Message.Hello own = RawClient.hello(ticket);
    mismatch(
        new Message.Hello(own.process(), own.libraryVersion(), own.nativeBuild(), 5, own.backend()),
        "joins a world of size 5",
        "was made for world size 3");
  }

  private static GroupTicket ticketToDiscard() {
    GroupTicket ticket = ticket(3);
    Groups.discardTicket(ticket);
    return ticket;
  }

  @Test
  void aMemberThatCannotPrepareFailsAllWithItsReason() throws Exception {
    GroupTicket given = Groups.createTicket("join", 2, Members.config().build(), Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket))) {
      one.send(
          Failure.of(
              Failure.Kind.ABORTED,
              "rank 1 (pid 7 on host h) could not join group 'join': no room"));
      assertThat(Members.failureOf(zero))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("rank 1 (pid 7 on host h) could not join group 'join': no room");
    }
  }

  @Test
  void whoComesLateToAFailedJoinHearsWhyAlthoughRankZeroHasLeftIt() throws Exception {
    GroupTicket given = ticket(3);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket))) {
      one.send(Failure.of(Failure.Kind.ABORTED, "rank 1 has no room"));
    }
    long start = System.nanoTime();
    assertThat(Members.failureOf(zero)).hasMessageContaining("rank 1 has no room");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
    assertThatThrownBy(() -> Members.join(given, 2)).hasMessageContaining("rank 1 has no room");
  }

  @Test
  void aMemberThatCannotBeMappedEndsTheJoinForAll() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel one = RawClient.admitted(ticket, 1, faraway(ticket))) {
      one.send(new Message.Descriptor(descriptorOfClosedMember(ticket)));
      assertThat(Members.failureOf(zero))
          .isInstanceOf(CollectiveException.class)
          .hasMessageStartingWith(
              String.format(
                  Locale.ROOT,
                  "rank 1 (pid %d) is not on this host or not visible from this process: ",
                  ProcessHandle.current().pid()));
    }
  }

  /** What a member on another host would say. */
  private static Message.Hello faraway(OpenTicket ticket) {
    Message.Hello own = RawClient.hello(ticket);
    return new Message.Hello(
        new ProcessIdentity("faraway", 99, "another machine"),
        own.libraryVersion(),
        own.nativeBuild(),
        own.worldSize(),
        own.backend());
  }

  @Test
  @Tag("host")
  void ranksOfAHostThatAreApartAreRefusedWithTheRightOrder() throws Exception {
    GroupTicket given = ticket(3);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    Future<CollectiveGroup> two = join(given, 2);
    try (FramedChannel one = RawClient.admitted(ticket, 1, faraway(ticket))) {
      one.send(new Message.Descriptor(descriptorOfClosedMember(ticket)));
      String sentence =
          String.format(
              Locale.ROOT,
              "group 'join' has ranks of one host apart: ranks 0, 2 on %s, rank 1 on faraway; the ranks of a host must be consecutive, so list the members in the order 0, 2, 1",
              ProcessIdentity.current().host());
      assertThat(Members.failureOf(zero))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessage(sentence);
      assertThat(Members.failureOf(two))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessage(sentence);
    }
  }

  @Test
  @Tag("host")
  void aMemberWithoutAnAddressAtTheLinkInterfaceSaysWhichItHas() {
    GroupConfig config =
        Members.config().links(links -> links.networkInterface("203.0.113.0/24")).build();
    GroupTicket given = Groups.createTicket("join", 1, config, Members.HOST);
    assertThatThrownBy(() -> Members.join(given, 0))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageStartingWith(
            "links.networkInterface is '203.0.113.0/24', but this host has no such address; it has ")
        .hasMessageContaining("lo 127.0.0.1");
  }

  @Test
  @Tag("host")
  void aRingTooSmallForSeveralHostsIsRefused() throws Exception {
    GroupConfig config = Members.config().ringBytes(28672).build();
    GroupTicket given = Groups.createTicket("join", 2, config, Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel one = RawClient.admitted(ticket, 1, faraway(ticket))) {
      one.send(new Message.Descriptor(descriptorOfClosedMember(ticket)));
      assertThat(Members.failureOf(zero))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessage(
              String.format(
                  Locale.ROOT,
                  "group 'join' spans hosts %s and faraway; ringBytes is 28672, and must be 0 or at least 32768 for members on several hosts",
                  ProcessIdentity.current().host()));
    }
  }

  /** Well made, but its segment is gone: what another host's looks like. */
  private static byte[] descriptorOfClosedMember(OpenTicket ticket) {
    try (NativeCommunicator gone = TestBackend.prepare(ticket, 1)) {
      return gone.descriptor();
    }
  }

  @Test
  void aMemberThatDiesDuringTheJoinIsNamed() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket));
    Thread.sleep(200);
    one.close();
    assertThat(Members.failureOf(zero))
        .isInstanceOfSatisfying(PeerLostException.class, e -> assertThat(e.lostRank()).isEqualTo(1))
        .hasMessageContaining("was lost while group 'join' was being created: connection closed");
  }

  @Test
  void aMemberThatDiesBeforeItSaysWhoItIsIsNamedByItsRank() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    FramedChannel framed =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
            .dial(Duration.ofSeconds(5));
    Member one =
        new Member(
            ticket.spec(),
            ticket.keys(),
            1,
            new ControlChannel(framed, ticket.spec()),
            Members.HOST,
            null);
    one.start();
    Thread.sleep(200); // it looks for its library and its device now
    long start = System.nanoTime();
    framed.channel().close(); // as the kernel does
    one.leave();
    assertThat(Members.failureOf(zero))
        .isInstanceOfSatisfying(PeerLostException.class, e -> assertThat(e.lostRank()).isEqualTo(1))
        .hasMessage(
            "rank 1 (on host 127.0.0.1) was lost while group 'join' was being created: connection closed");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void aMemberThatDiesBeforeItSaysWhoItIsIsNoLossWhileAnotherComesInItsPlace(int whoDies)
      throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    List<FramedChannel> both = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      both.add(
          new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
              .dial(Duration.ofSeconds(5)));
      both.get(i).send(new Message.Heartbeat());
    }
    Thread.sleep(200); // they look for their library and their device now
    both.get(whoDies).close();
    Thread.sleep(200);
    closeAll(join(given, 1), zero);
    both.get(1 - whoDies).close();
  }

  @Test
  void aConnectionThatEndsBeforeItsMemberHasSpokenIsTriedAgain() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
        .dial(Duration.ofSeconds(5))
        .close();
    Thread.sleep(200);
    closeAll(join(given, 1), zero);
  }

  @Test
  void anInterruptedJoinEndsAndTellsTheOthers() throws Exception {
    GroupTicket ticket = ticket(3);
    Future<CollectiveGroup> zero = join(ticket, 0);
    Thread[] thread = new Thread[1];
    Future<CollectiveGroup> one =
        threads.submit(
            () -> {
              thread[0] = Thread.currentThread();
              return Members.join(ticket, 1);
            });
    Thread.sleep(500);
    thread[0].interrupt();
    assertThat(Members.failureOf(one))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("rank 1 was interrupted");
    assertThat(Members.failureOf(zero))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("could not join group 'join': rank 1 was interrupted");
  }

  /** Rank 0 names the rank that was lost, and so does a member that has not greeted yet. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aMemberThatHasNotGreetedIsToldWhoWasLost(boolean hasGreeted) throws Exception {
    GroupTicket given = ticket(3);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel coming = dial(ticket, 1)) {
      FramedChannel victim = dial(ticket, 2);
      if (hasGreeted) {
        victim.send(RawClient.hello(ticket));
      }
      Thread.sleep(300); // until the hub has read it
      victim.close();
      assertThat(RawClient.firstMessage(coming))
          .isInstanceOfSatisfying(
              Failure.class,
              reason -> {
                assertThat(reason.kind()).isEqualTo(Failure.Kind.PEER_LOST);
                assertThat(reason.rank()).isEqualTo(2);
                assertThat(reason.message()).startsWith("rank 2 ").contains("was lost while");
              });
      assertThat(Members.failureOf(zero))
          .isInstanceOfSatisfying(
              PeerLostException.class, lost -> assertThat(lost.lostRank()).isEqualTo(2));
    }
  }

  @Test
  void aMemberThatComesAfterTheFailureIsToldWhyBeforeItGreets() throws Exception {
    GroupTicket given = ticket(4);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    try (FramedChannel coming = dial(ticket, 3)) {
      FramedChannel victim = dial(ticket, 2);
      Thread.sleep(300); // until the hub has read it
      victim.close();
      assertThat(RawClient.firstMessage(coming)).isInstanceOf(Failure.class);
      try (FramedChannel late = dial(ticket, 1)) {
        assertThat(RawClient.firstMessage(late))
            .isInstanceOfSatisfying(
                Failure.class,
                reason -> assertThat(reason.kind()).isEqualTo(Failure.Kind.PEER_LOST));
      }
    }
    assertThat(Members.failureOf(zero)).isInstanceOf(PeerLostException.class);
  }

  private static FramedChannel dial(OpenTicket ticket, int rank) throws Exception {
    FramedChannel channel =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, rank)
            .dial(Duration.ofSeconds(5));
    channel.send(new Message.Heartbeat());
    return channel;
  }

  /** What comes before its greeting does not count, as a slow start of its process. */
  @Test
  void aSlowFirstMemberIsToldWhoIsMissing() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(4)).build();
    OpenTicket ticket = OpenTicket.of(Groups.createTicket("slow", 2, config, Members.HOST));
    try (ServerSocket front = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      threads.execute(
          () -> {
            try {
              Socket from = front.accept();
              Thread.sleep(3500);
              Socket to = new Socket(ticket.host(), ticket.port());
              threads.execute(() -> pass(from, to));
              pass(to, from);
            } catch (IOException | InterruptedException e) {
              throw new IllegalStateException(e);
            }
          });
      OpenTicket slow =
          new OpenTicket(
              ticket.name(),
              ticket.worldSize(),
              ticket.uniqueId(),
              ticket.host(),
              front.getLocalPort(),
              ticket.secret(),
              ticket.config());
      assertThatThrownBy(() -> Members.join(slow.toGroupTicket(), 1))
          .isInstanceOfSatisfying(
              CollectiveTimeoutException.class,
              timeout -> assertThat(timeout.missingRanks()).containsExactly(0))
          .hasMessageContaining("rank 0 of group 'slow' did not join within 4 s");
    }
  }

  /** Closes neither: a reset by bytes that were not read would take a reason from its reader. */
  private static void pass(Socket from, Socket to) {
    try {
      from.getInputStream().transferTo(to.getOutputStream());
    } catch (IOException e) {
      // The other side has ended its connection. What it saw is what the test asserts.
    }
  }

  @Test
  void aMemberThatWasTakenForLostSaysSoOfItself() throws Exception {
    GroupTicket given = ticket(2);
    OpenTicket ticket = OpenTicket.of(given);
    Future<CollectiveGroup> zero = join(given, 0);
    FramedChannel one = RawClient.admitted(ticket, 1, RawClient.hello(ticket));
    one.send(
        Failure.lost(
            0, ProcessIdentity.current(), "rank 0 (x) was lost: silent for more than 5 s"));
    assertThat(Members.failureOf(zero))
        .isInstanceOf(PeerLostException.class)
        .hasMessageStartingWith("this process, rank 0 of group 'join', was taken for lost");
    one.close();
  }
}
