package io.nvrar.internal.member;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Ticket;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the last calls of all ranks written to a file when a member's group fails, on a thread of its
 * own: whoever ends the group must not wait for a disk.
 */
final class FlightRecorder {
  private static final Logger LOG = LoggerFactory.getLogger(FlightRecorder.class);

  /** How long the first exception waits for the file, to name it: a slow disk has time for that. */
  private static final long MENTION_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** How long the end of the member waits until all is read and written. */
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(3);

  private static final int ID_BYTES = 4;

  private final Ticket ticket;
  private final int rank;
  private final CountDownLatch done = new CountDownLatch(1);
  private volatile boolean disabled;
  private volatile boolean started;

  /** When it was; written before that. */
  private volatile long startNanos;

  private volatile boolean mentioned;
  private volatile @Nullable Path written;

  FlightRecorder(Ticket ticket, int rank) {
    this.ticket = ticket;
    this.rank = rank;
  }

  /** From here on nothing is recorded. */
  void disable() {
    disabled = true;
  }

  /** Begins to write; called once at most. */
  void start(NativeCommunicator comm, Message.Members members, Failure reason) {
    if (disabled) {
      return;
    }
    ProcessIdentity self = members.inRankOrder()[rank].process();
    FlightFile target =
        new FlightFile(FlightFile.directoryOfProcess(), ticket.name(), id(), self.host());
    Thread thread =
        new Thread(
            () -> write(target, comm, members, reason),
            "nvrar-" + ticket.name() + "-" + rank + "-flight");
    thread.setDaemon(true);
    startNanos = System.nanoTime();
    started = true;
    try {
      thread.start();
    } catch (OutOfMemoryError e) { // no room for a thread; the failure itself matters more
      started = false;
      LOG.warn("The flight record of {} is not written: {}", ticket.label(), e.getMessage());
    }
  }

  private void write(
      FlightFile target, NativeCommunicator comm, Message.Members members, Failure reason) {
    try {
      target.write(() -> record(comm, members, reason));
      written = target.path();
    } catch (IOException | RuntimeException | Error e) {
      LOG.warn("The flight record of {} is not written: {}", ticket.label(), e.toString());
    } finally {
      done.countDown();
    }
  }

  private FlightRecord record(NativeCommunicator comm, Message.Members members, Failure reason) {
    List<FlightRecord.Rank> ranks = new ArrayList<>();
    for (int r = 0; r < ticket.worldSize(); r++) {
      ProcessIdentity process = members.inRankOrder()[r].process();
      ranks.add(new FlightRecord.Rank(r, process.host(), process.pid(), comm.flightRecord(r)));
    }
    FlightRecord.Header header =
        new FlightRecord.Header(
            ticket.name(),
            id(),
            ticket.worldSize(),
            ticket.config().backend().name(),
            NativeCommunicator.buildId(),
            Instant.now().truncatedTo(ChronoUnit.MILLIS).toString(),
            System.nanoTime(),
            members.inRankOrder()[rank].process().host(),
            rank,
            reason.kind().name(),
            reason.message(),
            reason.rank(),
            Arrays.stream(reason.missing()).boxed().toList());
    return new FlightRecord(header, ranks);
  }

  // Also outside the group, where the unique id itself should not lie about.
  private String id() {
    byte[] digest = Crypto.sha256().digest(ticket.uniqueId());
    return HexFormat.of().formatHex(Arrays.copyOf(digest, ID_BYTES));
  }

  /** Waits, not for long, until the file is written, unless what is said of it was said before. */
  void awaitMention() {
    if (started && !mentioned) {
      await(MENTION_NANOS);
    }
  }

  /** Whether {@link #awaitMention} would wait now; false after as long as that would. */
  boolean awaitsMention() {
    return started
        && !mentioned
        && done.getCount() > 0
        && System.nanoTime() - startNanos < MENTION_NANOS;
  }

  /** Where the file lies: the end of a sentence, "" if it was not written, or not yet. */
  String clause() {
    mentioned = true;
    Path file = written;
    return file == null ? "" : "; flight record: " + file;
  }

  /** Waits until the calls have been read. */
  void await() {
    if (started) {
      await(END_NANOS);
    }
  }

  private void await(long nanos) {
    try {
      if (!done.await(nanos, TimeUnit.NANOSECONDS)) {
        LOG.debug("the flight record of {} is still being written", ticket.label());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
