package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.sun.management.ThreadMXBean;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.RawClient;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What strangers can do to a rendezvous: nothing, after which two members join and reduce. */
@Tag("slow")
class HandshakeAttackTest {
  private static final int WAVE = 100;

  private GroupTicket given;
  private volatile OpenTicket ticket;

  HandshakeAttackTest() {
    given = Groups.createTicket("besieged", 2, Members.config().build(), Members.HOST);
    ticket = OpenTicket.of(given);
  }

  @AfterEach
  void membersStillJoin() {
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      List<Callable<Float>> members = new ArrayList<>();
      for (int r = 0; r < 2; r++) {
        int rank = r;
        members.add(() -> joinAndSum(rank));
      }
      assertThat(Members.getAll(threads, members)).containsExactly(3f, 3f);
    } finally {
      threads.shutdownNow();
    }
  }

  private float joinAndSum(int rank) {
    try (CollectiveGroup group = Groups.join(given, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      buffer.copyFrom(new float[] {rank + 1});
      group.allReduce(buffer);
      float[] sum = new float[1];
      buffer.copyTo(sum);
      return sum[0];
    }
  }

  private OpenTicket withSecret(byte[] secret) {
    return ticket.withSecret(secret);
  }

  @Test
  void garbageIsHungUpOn() throws Exception {
    Random random = new Random(1);
    for (int i = 0; i < 50; i++) {
      byte[] garbage = new byte[Handshake.CLIENT_HELLO_BYTES + random.nextInt(100_000)];
      random.nextBytes(garbage);
      try (RawClient stranger = new RawClient(ticket)) {
        try {
          stranger.write(garbage);
        } catch (java.net.SocketException e) {
          assertThat(e).hasMessageMatching("Broken pipe.*|Connection reset.*");
        }
        assertThat(stranger.isHungUpOn()).isTrue();
      }
    }
  }

  @Test
  void aWrongSecretIsToldApartAtOnceAndCannotJoin() throws Exception {
    OpenTicket wrong = withSecret(Crypto.random(32));
    assertThatThrownBy(() -> Groups.join(wrong.toGroupTicket(), 1))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("it does not know the ticket's secret");
    // One who knows the ticket's id but not its secret gets the server's proof, and no further.
    Handshake right = new Handshake(ticket.keys());
    Handshake guess = new Handshake(wrong.keys());
    try (RawClient stranger = new RawClient(ticket)) {
      byte[] hello = right.clientHello(Handshake.Role.MEMBER, 1);
      stranger.write(hello);
      byte[] answer = stranger.read(Handshake.SERVER_HELLO_BYTES);
      assertThat(right.isServer(hello, answer)).isTrue();
      assertThat(guess.isServer(hello, answer)).isFalse();
      stranger.write(guess.clientProof(hello, answer));
      assertThat(stranger.isHungUpOn()).isTrue();
    }
  }

  @Test
  void aReplayedConversationIsHungUpOn() throws Exception {
    Handshake handshake = new Handshake(ticket.keys());
    byte[] hello = handshake.clientHello(Handshake.Role.MEMBER, 1);
    byte[] proof;
    byte[] answer;
    try (RawClient member = new RawClient(ticket)) {
      member.write(hello);
      answer = member.read(Handshake.SERVER_HELLO_BYTES);
      proof = handshake.clientProof(hello, answer);
      member.write(proof);
    }
    try (RawClient replay = new RawClient(ticket)) {
      replay.write(hello);
      assertThat(replay.read(Handshake.SERVER_HELLO_BYTES)).isNotEqualTo(answer);
      replay.write(proof);
      assertThat(replay.isHungUpOn()).isTrue();
    }
  }

  @Test
  void aProofForOneRankOrRoleIsNoneForAnother() throws Exception {
    Handshake handshake = new Handshake(ticket.keys());
    byte[] asObserver = handshake.clientHello(Handshake.Role.OBSERVER, 0);
    byte[] asMember = asObserver.clone();
    asMember[5] = 0;
    byte[] asOtherRank = asMember.clone();
    asOtherRank[7] = 1;
    for (byte[] claimed : List.of(asMember, asOtherRank)) {
      try (RawClient stranger = new RawClient(ticket)) {
        stranger.write(claimed);
        byte[] answer = stranger.read(Handshake.SERVER_HELLO_BYTES);
        stranger.write(handshake.clientProof(asObserver, answer));
        assertThat(stranger.isHungUpOn()).isTrue();
      }
    }
    // Nor is the server's proof the client's.
    try (RawClient mirror = new RawClient(ticket)) {
      mirror.write(asMember);
      byte[] answer = mirror.read(Handshake.SERVER_HELLO_BYTES);
      mirror.write(Arrays.copyOfRange(answer, 40, 72));
      assertThat(mirror.isHungUpOn()).isTrue();
    }
  }

  @Test
  void hundredsOfSilentConnectionsHoldUpNobody() throws Exception {
    List<RawClient> silent = new ArrayList<>();
    int threads = Thread.activeCount();
    try {
      for (int i = 0; i < 400; i++) {
        silent.add(new RawClient(ticket));
      }
      assertThat(Thread.activeCount()).isLessThanOrEqualTo(threads + 1);
      // The oldest made room.
      assertThat(silent.get(0).isHungUpOn()).isTrue();
      long start = System.nanoTime();
      membersStillJoin();
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(4));
      replaceTicket();
    } finally {
      silent.forEach(RawClient::close);
    }
  }

  /** With a hello that has the ticket's id, so that the hub goes as far with it as it ever does. */
  @Test
  void aFloodOfStrangersTakesAFewKilobytesEach() throws Exception {
    byte[] hello = new Handshake(ticket.keys()).clientHello(Handshake.Role.MEMBER, 1);
    byte[] wrongProof = new byte[Handshake.CLIENT_PROOF_BYTES];
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long hub =
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().equals("nvrar-besieged-hub"))
            .mapToLong(Thread::getId)
            .max()
            .orElseThrow();
    long before = threads.getThreadAllocatedBytes(hub);
    int strangers = 500;
    for (int i = 0; i < strangers; i++) {
      try (RawClient stranger = new RawClient(ticket)) {
        stranger.write(hello);
        stranger.read(Handshake.SERVER_HELLO_BYTES);
        stranger.write(wrongProof);
        assertThat(stranger.isHungUpOn()).isTrue();
      }
    }
    long each = (threads.getThreadAllocatedBytes(hub) - before) / strangers;
    assertThat(each).isLessThan(16 * 1024); // twice what it was when this was written
  }

  @Test
  void aByteASecondEndsAtTheDeadline() throws Exception {
    try (RawClient slow = new RawClient(ticket)) {
      byte[] hello = new Handshake(ticket.keys()).clientHello(Handshake.Role.MEMBER, 1);
      long start = System.nanoTime();
      int sent = 0;
      try {
        while (sent < hello.length && System.nanoTime() - start < 9_000_000_000L) {
          slow.write(new byte[] {hello[sent++]});
          Thread.sleep(500);
        }
      } catch (java.net.SocketException e) {
        assertThat(e).hasMessageMatching("Broken pipe.*|Connection reset.*");
      }
      assertThat(Duration.ofNanos(System.nanoTime() - start))
          .isBetween(Duration.ofSeconds(4), Duration.ofSeconds(8));
      assertThat(slow.isHungUpOn()).isTrue();
    }
  }

  @Test
  void membersGetInThroughAStorm() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    AtomicBoolean calm = new AtomicBoolean();
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      threads.execute(
          () -> {
            while (!calm.get()) {
              wave(connections);
            }
          });
      awaitMore(connections);
      Future<Float> one = threads.submit(() -> joinAndSum(1));
      awaitMore(connections);
      Future<Float> zero = threads.submit(() -> joinAndSum(0));
      assertThat(one.get(20, TimeUnit.SECONDS)).isEqualTo(3f);
      assertThat(zero.get(20, TimeUnit.SECONDS)).isEqualTo(3f);
    } finally {
      calm.set(true);
      threads.shutdown();
      assertThat(threads.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
    }
    replaceTicket();
  }

  private static void awaitMore(AtomicInteger connections) {
    int before = connections.get();
    await().atMost(Duration.ofSeconds(10)).until(() -> connections.get() >= before + 2 * WAVE);
  }

  @Test
  void aFrameWithAForgedMacEndsTheConnection() throws Exception {
    FramedChannel forged =
        new FramedChannel(
            new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
                .dial(Duration.ofSeconds(5))
                .channel(),
            new byte[32],
            new byte[32]);
    forged.send(new Message.Heartbeat());
    await()
        .atMost(Duration.ofSeconds(5))
        .until(
            () -> {
              java.nio.ByteBuffer sink = java.nio.ByteBuffer.allocate(1024);
              try {
                return forged.channel().read(sink) < 0;
              } catch (java.io.IOException e) {
                return true;
              }
            });
    forged.close();
  }

  /** A hundred connections at once that say nothing. */
  private void wave(AtomicInteger connections) {
    List<RawClient> clients = new ArrayList<>();
    try {
      for (int i = 0; i < WAVE; i++) {
        clients.add(new RawClient(ticket));
        connections.incrementAndGet();
      }
    } catch (IOException e) {
      Thread.onSpinWait(); // the backlog is full, or the group has ended and its port is closed
    }
    clients.forEach(RawClient::close);
  }

  /** For tests that have used up the ticket. */
  private void replaceTicket() {
    given = Groups.createTicket("besieged", 2, Members.config().build(), Members.HOST);
    ticket = OpenTicket.of(given);
  }
}
