package io.nvrar.internal.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Ticket;
import io.nvrar.internal.wire.TicketCodec;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.io.PrintStream;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** An error of the hub's thread that no log can take. */
class UnprintableErrorTest {

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

  @Test
  void theHubEndsAndItsObserverIsTold() {
    Rendezvous hub =
        Rendezvous.open(
            "mute",
            2,
            Members.config().build(),
            Members.HOST,
            id -> Crypto.random(Ticket.SECRET_BYTES));
    hub.start(() -> {});
    hub.show(BROKEN);
    try (GroupObserver observer = Groups.observe(TicketCodec.encode(hub.ticket()))) {
      hub.discard("enough");
      assertThat(hub.awaitEnd(TimeUnit.SECONDS.toNanos(5))).isTrue();
      await().atMost(Duration.ofSeconds(5)).until(() -> observer.failure() != null);
      assertThat(observer.failure()).hasMessageContaining("enough");
    }
  }
}
