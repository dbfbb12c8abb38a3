package io.nvrar.internal.wire;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.nvrar.internal.Printable;
import java.util.Arrays;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * Why a group failed, as a message of the control channel. The exception is created where it is
 * thrown, so each caller gets its own stack trace.
 *
 * @param kind which exception it becomes
 * @param message the sentence
 * @param rank the rank that was lost or that ended the group; -1 for the driver, for no rank, and
 *     for a member of the group that this one was split from
 * @param host the host of that rank
 * @param pid the process id of that rank
 * @param missing the ranks that were missing, for {@link Kind#TIMEOUT}
 * @param namesCalls whether the message already says what every rank was doing
 */
@SuppressWarnings("ArrayRecordComponent") // never changed after construction
public record Failure(
    Kind kind, String message, int rank, String host, long pid, int[] missing, boolean namesCalls)
    implements Message {

  /** Far more than a sentence needs; the limit keeps a user's reason from exceeding a frame. */
  public static final int MAX_MESSAGE_CHARS = 8192;

  private static final int[] NONE = {};

  /** The order is part of the protocol. */
  public enum Kind {
    ABORTED,
    PEER_LOST,
    TIMEOUT,
    MISMATCH,
    /** A member could not join because its backend cannot run there. */
    UNAVAILABLE,
    FATAL,
    /** The driver ended the group, or was lost; also fails the groups split from this one. */
    DRIVER
  }

  public Failure {
    Objects.requireNonNull(kind, "kind");
    // The hub forwards the message with additional text, so the message is truncated to fit.
    message = Printable.of(message, MAX_MESSAGE_CHARS);
    host = Printable.of(host, ProcessIdentity.MAX_CHARS);
    if (missing.length > GroupSpec.MAX_WORLD_SIZE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a failure with %d missing ranks, the limit is %d",
              missing.length,
              GroupSpec.MAX_WORLD_SIZE));
    }
  }

  public static Failure of(Kind kind, String message) {
    return new Failure(kind, message, -1, "", 0, NONE, false);
  }

  /** The failure caused by one member. */
  public static Failure aborted(int rank, ProcessIdentity process, String message) {
    return new Failure(Kind.ABORTED, message, rank, process.host(), process.pid(), NONE, false);
  }

  /**
   * The failure caused by this process's member.
   *
   * @param what the text after "rank N (process)"
   */
  public static Failure abortedHere(int rank, String what) {
    ProcessIdentity self = ProcessIdentity.current();
    return aborted(rank, self, String.format(Locale.ROOT, "rank %d (%s) %s", rank, self, what));
  }

  public static Failure lost(int rank, ProcessIdentity process, String message) {
    return new Failure(Kind.PEER_LOST, message, rank, process.host(), process.pid(), NONE, false);
  }

  public static Failure timeout(String message, int... missing) {
    return new Failure(Kind.TIMEOUT, message, -1, "", 0, missing, false);
  }

  /** The failure of {@code exception} with another message. */
  public static Failure like(CollectiveException exception, String message) {
    if (exception instanceof CollectiveTimeoutException timeout) {
      return timeout(message, timeout.missingRanks());
    }
    if (exception instanceof PeerLostException lost) {
      return new Failure(
          Kind.PEER_LOST, message, lost.lostRank(), lost.host(), lost.pid(), NONE, false);
    }
    if (exception instanceof GroupMismatchException) {
      return of(Kind.MISMATCH, message);
    }
    return of(exception instanceof CollectiveFatalException ? Kind.FATAL : Kind.ABORTED, message);
  }

  /** The failure as reported to other members, whose processes need not end. */
  public Failure forOthers(String newMessage) {
    Kind theirs = kind == Kind.FATAL ? Kind.ABORTED : kind;
    return new Failure(theirs, newMessage, rank, host, pid, missing, namesCalls);
  }

  public Failure withMessage(String newMessage) {
    return new Failure(kind, newMessage, rank, host, pid, missing, namesCalls);
  }

  /**
   * The failure as reported to the members of another group.
   *
   * @param ranks that group's members by their rank in this one, in the order of their new ranks; a
   *     rank that it does not contain becomes -1
   */
  public Failure forGroup(int[] ranks, String newMessage) {
    int[] missingThere =
        IntStream.range(0, ranks.length)
            .filter(r -> IntStream.of(missing).anyMatch(old -> old == ranks[r]))
            .toArray();
    int rankThere = Message.Split.newRank(rank, ranks).orElse(-1);
    return new Failure(kind, newMessage, rankThere, host, pid, missingThere, namesCalls);
  }

  /** This failure, marked as having a message that already names the calls of all ranks. */
  public Failure namingCalls() {
    return new Failure(kind, message, rank, host, pid, missing, true);
  }

  /** Creates an exception with the caller's stack trace. */
  public CollectiveException toException() {
    return switch (kind) {
      case ABORTED, UNAVAILABLE, DRIVER -> new CollectiveException(message);
      case PEER_LOST -> new PeerLostException(message, rank, host, pid);
      case TIMEOUT -> new CollectiveTimeoutException(message, missing);
      case MISMATCH -> new GroupMismatchException(message);
      case FATAL -> new CollectiveFatalException(message);
    };
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Failure that
        && kind == that.kind
        && message.equals(that.message)
        && rank == that.rank
        && host.equals(that.host)
        && pid == that.pid
        && Arrays.equals(missing, that.missing)
        && namesCalls == that.namesCalls;
  }

  @Override
  public int hashCode() {
    return Objects.hash(kind, message, rank, host, pid, Arrays.hashCode(missing), namesCalls);
  }

  @Override
  public String toString() {
    return kind + ": " + message;
  }
}
