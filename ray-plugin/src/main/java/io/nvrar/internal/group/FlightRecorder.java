package io.nvrar.internal.group;

import io.nvrar.internal.Daemon;
import io.nvrar.internal.Monitor;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.flight.Announcement;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the last calls of all ranks to a file when a member's group fails, or on request. On a
 * failure it uses a separate thread, because failing the group must not wait for a disk.
 */
final class FlightRecorder {
  private static final Logger LOG = LoggerFactory.getLogger(FlightRecorder.class);

  /**
   * How long after the failure the first exception waits for the file, so that it can say that it
   * is there. A killed process is to be known to all in a second, also where this is the process's
   * first failure, for which it loads the code.
   */
  private static final long MENTION_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  /** How long the end of the member waits until the record is read and written. */
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(3);

  private static final int ID_BYTES = 4;

  /** How many calls of a rank on another host are kept: the record of that host has the others. */
  private static final int MAX_CALLS_ELSEWHERE = 64;

  private final GroupSpec spec;
  private final int rank;

  /** Its own, because the flight record must not wait for the group's. */
  private final Monitor writing = new Monitor();

  /** Made beforehand, for a thread that has run out of memory. */
  @SuppressWarnings("UnnecessaryLambda")
  private final Runnable isDone = () -> writing.update(this::setDone);

  private volatile boolean done;
  private volatile boolean disabled;
  private volatile boolean started;

  /** The time of the start; written before it. */
  private volatile long startNanos;

  /** Null before the group is complete. */
  private volatile @Nullable Announcement announcement;

  private volatile boolean mentioned;

  /** Null before the start. */
  private volatile @Nullable FlightFile file;

  /** Whether the file is complete; final once {@code done}. */
  private volatile boolean written;

  FlightRecorder(GroupSpec spec, int rank) {
    this.spec = spec;
    this.rank = rank;
  }

  /** Disables recording from now on. */
  void disable() {
    disabled = true;
  }

  /** Starts writing; called at most once. */
  void start(NativeCommunicator comm, Message.Members members, Failure reason) {
    if (disabled) {
      return;
    }
    try {
      Hosts hosts = Hosts.of(members);
      FlightFile target = target(hosts);
      Thread thread =
          Daemon.of(
              "nvrar-" + spec.name() + "-" + rank + "-flight",
              () -> write(target, comm, members, hosts, reason));
      file = target;
      startNanos = System.nanoTime();
      started = true;
      thread.start();
    } catch (RuntimeException | Error e) {
      // As when the directory's name is none, or no thread can be started. The failure itself
      // matters more.
      started = false;
      logNotWritten(e);
    }
  }

  private FlightFile target(Hosts hosts) {
    return new FlightFile(FlightFile.directoryOfProcess(), spec.name(), id(), hosts.label(rank));
  }

  /** A clause that says where the file of a failure will be; "" if none will. */
  String place(Hosts hosts) {
    try {
      return disabled
          ? ""
          : String.format(
              Locale.ROOT,
              "; flight record on %s, unless it could not be written: %s",
              hosts.label(rank),
              target(hosts).path());
    } catch (InvalidPathException e) {
      return ""; // start() logs it
    }
  }

  /**
   * Lets others on this host look at the member from now on. Not under a lock: it writes a file.
   */
  void announce(byte[] descriptor, Message.Members members) {
    Hosts hosts = Hosts.of(members);
    announcement =
        Announcement.of(
            spec.name(),
            id(),
            spec.worldSize(),
            spec.config().backend().name(),
            rank,
            hosts.label(rank),
            members.inRankOrder()[rank].process().machine(),
            descriptor);
  }

  /** Adds why the group has failed to what {@link #announce} has told. */
  void announceFailure(Failure reason) {
    Announcement announced = announcement;
    if (announced != null) {
      announced.failed(reason.message());
    }
  }

  /** Ends {@link #announce}. Idempotent. */
  void withdraw() {
    Announcement announced = announcement;
    if (announced != null) {
      announced.withdraw();
    }
  }

  private void write(
      FlightFile target,
      NativeCommunicator comm,
      Message.Members members,
      Hosts hosts,
      Failure reason) {
    try {
      announceFailure(reason);
      target.write(() -> record(comm, members, hosts, reason));
      written = true;
    } catch (IOException | RuntimeException | Error e) {
      logNotWritten(e);
    } finally {
      Daemon.untilDone(isDone);
    }
  }

  private void setDone() {
    done = true;
  }

  /** Whether {@link #start} has started the writing. */
  boolean isStarted() {
    return started;
  }

  private void logNotWritten(Throwable e) {
    LOG.warn("The flight record of {} is not written: {}", spec.label(), e.toString());
  }

  /**
   * Writes the record to a file of the caller's, which is replaced if it exists.
   *
   * @param reason null if the group has not failed
   */
  void writeTo(
      Path file, NativeCommunicator comm, Message.Members members, @Nullable Failure reason)
      throws IOException {
    FlightFile.write(record(comm, members, Hosts.of(members), reason), file);
  }

  private FlightRecord record(
      NativeCommunicator comm, Message.Members members, Hosts hosts, @Nullable Failure reason) {
    List<FlightRecord.Rank> ranks = new ArrayList<>();
    for (int r = 0; r < spec.worldSize(); r++) {
      long pid = members.inRankOrder()[r].process().pid();
      ranks.add(new FlightRecord.Rank(r, hosts.label(r), pid, calls(comm, r)));
    }
    FlightRecord.Header header =
        new FlightRecord.Header(
            spec.name(),
            id(),
            spec.worldSize(),
            spec.config().backend().name(),
            NativeCommunicator.buildId(),
            Instant.now().truncatedTo(ChronoUnit.MILLIS).toString(),
            System.nanoTime(),
            hosts.label(rank),
            rank,
            reason == null ? FlightRecord.NO_FAILURE : reason.kind().name(),
            reason == null ? "none" : reason.message(),
            reason == null ? -1 : reason.rank(),
            reason == null ? List.of() : Arrays.stream(reason.missing()).boxed().toList());
    return new FlightRecord(header, ranks);
  }

  private static List<CallRecord> calls(NativeCommunicator comm, int rank) {
    List<CallRecord> calls = comm.flightRecord(rank);
    return comm.isElsewhere(rank)
        ? calls.subList(Math.max(0, calls.size() - MAX_CALLS_ELSEWHERE), calls.size())
        : calls;
  }

  // The file can be read outside the group, so it contains a digest and not the unique id itself.
  private String id() {
    byte[] digest = Crypto.sha256().digest(spec.uniqueId());
    return HexFormat.of().formatHex(Arrays.copyOf(digest, ID_BYTES));
  }

  /**
   * Waits for a short time until the file is written, unless an earlier exception has already fixed
   * what is said about it.
   */
  void awaitMention() {
    if (started && !mentioned) {
      awaitUntil(startNanos + MENTION_NANOS);
    }
  }

  /** Whether {@link #awaitMention} would block now; false once its time limit is over. */
  boolean awaitsMention() {
    return started && !mentioned && !done && System.nanoTime() - startNanos < MENTION_NANOS;
  }

  /**
   * A clause that names the file, for the end of a sentence, and says so if it is not complete yet;
   * "" if it is not written.
   */
  String clause() {
    mentioned = true;
    FlightFile target = file;
    boolean over = done;
    if (!started || target == null || (over && !written)) {
      return "";
    }
    return "; flight record: " + target.path() + (over ? "" : " (being written)");
  }

  /** Waits until the calls have been read. */
  void await() {
    if (started) {
      awaitUntil(System.nanoTime() + END_NANOS);
    }
  }

  // An interrupt does not end it: every later message would say that the record is being written,
  // or the recorder would read memory that the caller frees next.
  private void awaitUntil(long endNanos) {
    writing.awaitUninterruptibly(() -> done, endNanos);
    if (!done) {
      LOG.debug("the flight record of {} is still being written", spec.label());
    }
  }
}
