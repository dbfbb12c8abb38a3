package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Daemon;
import io.nvrar.internal.Monitor;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class FailureListenersTest {

  @Test
  void listenersForWhichNoThreadCanStartWaitUntilOneCan() {
    GroupTicket given = Groups.createTicket("listeners", 1, Members.config().build(), Members.HOST);
    OpenTicket ticket = OpenTicket.of(given);
    CollectiveException failure = new CollectiveException("of a test");
    AtomicInteger refusals = new AtomicInteger(2);
    FailureListeners listeners =
        new FailureListeners(
            ticket.spec(),
            0,
            new Monitor(),
            () -> refusals.get() < 2, // as the failure comes with the first attempt
            () -> failure,
            work -> {
              if (refusals.getAndDecrement() > 0) {
                throw new OutOfMemoryError("unable to create native thread");
              }
              return Daemon.of("nvrar-listeners-failure", work);
            });
    List<CollectiveException> heard = new CopyOnWriteArrayList<>();
    listeners.add(heard::add);
    listeners.failed();
    assertThatThrownBy(listeners::noMoreFailures).isInstanceOf(OutOfMemoryError.class);
    assertThat(heard).isEmpty();
    listeners.noMoreFailures();
    listeners.noMoreFailures();
    await().until(() -> !heard.isEmpty());
    assertThat(heard).containsExactly(failure);
    Groups.discardTicket(given);
  }
}
