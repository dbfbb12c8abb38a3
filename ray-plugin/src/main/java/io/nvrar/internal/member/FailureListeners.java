package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.internal.wire.Ticket;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whom a member's user wants to be told of the group's failure: once, on a thread of their own, as
 * the channel's must not wait for what users do there.
 */
final class FailureListeners {
  private static final Logger LOG = LoggerFactory.getLogger(FailureListeners.class);

  private final Ticket ticket;
  private final int rank;
  private final Monitor monitor;
  private final Supplier<@Nullable CollectiveException> failure;
  private final Supplier<CollectiveException> awaitedFailure;

  // Guarded by the monitor.
  private final List<Consumer<CollectiveException>> waiting = new ArrayList<>();
  private boolean isOver;

  /**
   * @param failure null while there is none; does not wait
   * @param awaitedFailure the same once there is one; may wait for what it names
   */
  FailureListeners(
      Ticket ticket,
      int rank,
      Monitor monitor,
      Supplier<@Nullable CollectiveException> failure,
      Supplier<CollectiveException> awaitedFailure) {
    this.ticket = ticket;
    this.rank = rank;
    this.monitor = monitor;
    this.failure = failure;
    this.awaitedFailure = awaitedFailure;
  }

  /** Has a listener told later, or tells it now if the group has failed. */
  void add(Consumer<CollectiveException> listener) {
    Objects.requireNonNull(listener, "listener");
    CollectiveException known =
        monitor.locked(
            () -> {
              CollectiveException already = failure.get();
              if (already == null && !isOver) {
                waiting.add(listener);
              }
              return already;
            });
    if (known != null) {
      listener.accept(known);
    }
  }

  void remove(Consumer<CollectiveException> listener) {
    monitor.update(() -> waiting.remove(listener));
  }

  /** There will be no failure any more; under the monitor. */
  void over() {
    isOver = true;
    waiting.clear();
  }

  /** There is a failure; under the monitor. */
  void failed() {
    if (waiting.isEmpty()) {
      return;
    }
    List<Consumer<CollectiveException>> told = List.copyOf(waiting);
    waiting.clear();
    Thread thread =
        new Thread(() -> tell(told), "nvrar-" + ticket.name() + "-" + rank + "-failure");
    thread.setDaemon(true);
    try {
      thread.start();
    } catch (OutOfMemoryError e) { // no room for a thread; the failure itself matters more
      LOG.error(
          "The failure listeners of {} on rank {} are not called: {}",
          ticket.label(),
          rank,
          e.getMessage());
    }
  }

  private void tell(List<Consumer<CollectiveException>> told) {
    CollectiveException known = awaitedFailure.get();
    for (Consumer<CollectiveException> listener : told) {
      try {
        listener.accept(known);
      } catch (RuntimeException | Error e) {
        LOG.error("A failure listener of {} on rank {} has failed", ticket.label(), rank, e);
      }
    }
  }
}
