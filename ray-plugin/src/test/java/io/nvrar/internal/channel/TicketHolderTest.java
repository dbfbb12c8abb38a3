package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.RawClient;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What one who holds the ticket, and only that, cannot do to the hub. */
class TicketHolderTest {
  private static final int FLOOD = 400_000;
  private static final int SIGNS_OF_LIFE = 100;

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<RawClient> clients = new ArrayList<>();

  @AfterEach
  void allLeave() {
    clients.forEach(RawClient::close);
    threads.shutdownNow();
  }

  private static GroupTicket ticket(GroupConfig.Builder config) {
    return Groups.createTicket("held", 2, config.build(), Members.HOST);
  }

  /** The two members of a group, joined. */
  private Members join(GroupTicket ticket) {
    List<Callable<CollectiveGroup>> joins =
        List.of(() -> Groups.join(ticket, 0), () -> Groups.join(ticket, 1));
    return Members.of(Members.getAll(threads, joins));
  }

  private RawClient connect(OpenTicket ticket) throws IOException {
    RawClient client = new RawClient(ticket);
    clients.add(client);
    return client;
  }

  @Test
  void thoseWhoSendWithoutPauseDoNotKeepTheHubFromTheMembers() throws Exception {
    Duration limit = Duration.ofMillis(1500);
    GroupTicket given = ticket(Members.config().heartbeatLimit(limit));
    OpenTicket ticket = OpenTicket.of(given);
    List<Future<Void>> floods = new ArrayList<>();
    try (Members members = join(given)) {
      for (int i = 0; i < 3; i++) {
        RawClient client = connect(ticket);
        floods.add(threads.submit(() -> flood(client, ticket)));
      }
      long calls = 0;
      while (!floods.stream().allMatch(Future::isDone)) {
        members.onAll(CollectiveGroup::barrier);
        calls++;
      }
      for (Future<Void> flood : floods) {
        flood.get(1, TimeUnit.SECONDS); // nobody was hung up on
      }
      Thread.sleep(limit.toMillis());
      members.onAll(CollectiveGroup::throwIfFailed);
      assertThat(calls).isPositive();
    }
  }

  @Test
  void manyWhoProveThatTheyHoldTheTicketMakeRoomForEachOtherAndNotAtTheMembersCost()
      throws Exception {
    GroupTicket given = ticket(Members.config());
    OpenTicket ticket = OpenTicket.of(given);
    int room = Admission.maxPeers(2) - 2;
    try (Members members = join(given)) {
      for (int i = 0; i < room + 10; i++) {
        connect(ticket).prove(ticket, Handshake.Role.MEMBER, i % 2);
      }
      try (GroupObserver observer = Groups.observe(given)) {
        await()
            .atMost(Duration.ofSeconds(2))
            .untilAsserted(
                () -> {
                  List<Boolean> ended = new ArrayList<>();
                  for (RawClient client : clients) {
                    ended.add(client.hasEnded());
                  }
                  assertThat(ended.subList(0, 11)).containsOnly(true);
                  assertThat(ended.subList(11, ended.size())).containsOnly(false);
                });
        members.onAll(CollectiveGroup::barrier);
        assertThat(observer.failure()).isNull();
      }
    }
  }

  @Test
  void whoDoesNotGreetHasToGo() throws Exception {
    Duration limit = Duration.ofSeconds(3);
    GroupTicket given = ticket(Members.config().joinTimeout(limit));
    OpenTicket ticket = OpenTicket.of(given);
    try (Members members = join(given);
        FramedChannel silent =
            new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
                .dial(limit)) {
      long start = System.nanoTime();
      boolean open = true;
      while (open && System.nanoTime() - start < TimeUnit.SECONDS.toNanos(10)) {
        Thread.sleep(50);
        try {
          silent.send(new Message.Heartbeat());
          open = silent.receive(message -> {});
        } catch (IOException e) {
          open = false;
        }
      }
      assertThat(Duration.ofNanos(System.nanoTime() - start))
          .isBetween(limit.minusMillis(500), limit.plusSeconds(3));
      members.onAll(CollectiveGroup::barrier);
    }
  }

  /** All is signed before, with a sign of life now and then, and comes as fast as it can. */
  private static Void flood(RawClient client, OpenTicket ticket) throws IOException {
    Handshake.Keys keys = client.prove(ticket, Handshake.Role.OBSERVER, 0);
    ScriptedChannel life = new ScriptedChannel(new byte[0], 1).keepWritten();
    ScriptedChannel rest = new ScriptedChannel(new byte[0], 1).keepWritten();
    try (FramedChannel signer = new FramedChannel(life, keys.toServer(), keys.toClient())) {
      for (int i = 0; i < SIGNS_OF_LIFE; i++) {
        signer.send(new Message.Heartbeat());
      }
    }
    byte[] signs = life.written();
    int signBytes = signs.length / SIGNS_OF_LIFE;
    int sign = 0;
    try (FramedChannel signer = new FramedChannel(rest, keys.toServer(), keys.toClient())) {
      for (int i = 0; i < FLOOD; i++) {
        signer.send(new Message.Heartbeat());
        if (i % (FLOOD / SIGNS_OF_LIFE) == 0) {
          client.write(Arrays.copyOfRange(signs, sign * signBytes, ++sign * signBytes));
        }
      }
    }
    // The same frames again, without those that were sent already.
    byte[] flood = rest.written();
    client.write(Arrays.copyOfRange(flood, signs.length, flood.length));
    return null;
  }
}
