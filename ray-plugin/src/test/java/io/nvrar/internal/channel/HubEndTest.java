package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import io.nvrar.standalone.RawClient;
import java.io.PrintStream;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What observers are told by a hub that ends. */
class HubEndTest {

  private static final class Unprintable extends RuntimeException {
    private static final long serialVersionUID = 1;

    @Override
    public void printStackTrace(PrintStream out) {
      throw new IllegalStateException("as a logger without memory");
    }
  }

  private static final RankZeroView BROKEN =
      new RankZeroView() {
        @Override
        public String activities() {
          throw new Unprintable();
        }

        @Override
        public String flightRecord(boolean isRankZeroLost) {
          return "";
        }
      };

  private final GroupKeys keys = GroupKeys.random();

  private Rendezvous start() {
    Rendezvous hub = Rendezvous.open("mute", 2, Members.config().build(), Members.HOST, id -> keys);
    hub.start(() -> {});
    return hub;
  }

  @Test
  void anObserverThatHasNotGreetedIsTold() throws Exception {
    Rendezvous hub = start();
    try (FramedChannel observer =
        new Dialer(hub.spec(), new Handshake(keys), Handshake.Role.OBSERVER, 0)
            .dial(Duration.ofSeconds(5))) {
      hub.discard("enough");
      assertThat(RawClient.firstMessage(observer))
          .isInstanceOfSatisfying(
              Failure.class, reason -> assertThat(reason.message()).contains("enough"));
    }
    assertThat(hub.awaitEnd(TimeUnit.SECONDS.toNanos(5))).isTrue();
  }

  /** An error of the hub's thread that no log can take. */
  @Test
  void anErrorThatCannotBePrintedEndsItToo() {
    Rendezvous hub = start();
    hub.show(BROKEN);
    try (GroupObserver observer = Groups.observe(OpenTicket.of(hub.spec(), keys).toGroupTicket())) {
      hub.discard("enough");
      assertThat(hub.awaitEnd(TimeUnit.SECONDS.toNanos(5))).isTrue();
      await().atMost(Duration.ofSeconds(5)).until(() -> observer.failure() != null);
      assertThat(observer.failure()).hasMessageContaining("enough");
    }
  }
}
