package io.nvrar.internal.wire;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.nvrar.internal.Printable;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * Why a group failed, in a form that travels. The exception is made where it is thrown, so each
 * caller gets a stack of its own.
 *
 * @param kind which exception it becomes
 * @param message the sentence
 * @param rank the rank that was lost or that ended the group; -1 for the driver, for nobody, and
 *     for one that is no member of this group but of the one it was split from
 * @param host the host of that rank
 * @param pid the process id of that rank
 * @param missing the ranks that were waited for, for {@link Kind#TIMEOUT}
 * @param namesCalls whether the sentence says already what every rank was doing
 */
@SuppressWarnings("ArrayRecordComponent") // never changed after construction
public record Failure(
    Kind kind, String message, int rank, String host, long pid, int[] missing, boolean namesCalls)
    implements Message {

  /** Far more than a sentence; a user's reason must not exceed a frame. */
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
    /** The driver ended the group, or was lost; ends the groups split from this one, too. */
    DRIVER
  }

  public Failure {
    Objects.requireNonNull(kind, "kind");
    // The hub sends it on with more words, so it must fit whatever the first one to send it said.
    message = Printable.of(message, MAX_MESSAGE_CHARS);
    host = Printable.of(host, ProcessIdentity.MAX_CHARS);
    if (missing.length > Ticket.MAX_WORLD_SIZE) {
      throw new IllegalArgumentException(
          "a failure with %d missing ranks, the limit is %d"
              .formatted(missing.length, Ticket.MAX_WORLD_SIZE));
    }
  }

  public static Failure of(Kind kind, String message) {
    return new Failure(kind, message, -1, "", 0, NONE, false);
  }

  /** One member's doing. */
  public static Failure aborted(int rank, ProcessIdentity process, String message) {
    return new Failure(Kind.ABORTED, message, rank, process.host(), process.pid(), NONE, false);
  }

  /**
   * The doing of this process's member.
   *
   * @param what after "rank N (process)"
   */
  public static Failure abortedHere(int rank, String what) {
    ProcessIdentity self = ProcessIdentity.current();
    return aborted(rank, self, "rank %d (%s) %s".formatted(rank, self, what));
  }

  public static Failure lost(int rank, ProcessIdentity process, String message) {
    return new Failure(Kind.PEER_LOST, message, rank, process.host(), process.pid(), NONE, false);
  }

  public static Failure timeout(String message, int... missing) {
    return new Failure(Kind.TIMEOUT, message, -1, "", 0, missing, false);
  }

  /** What {@code exception} says, under another sentence. */
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

  /** As the other members see it: a process that must end is not theirs. */
  public Failure forOthers(String newMessage) {
    Kind theirs = kind == Kind.FATAL ? Kind.ABORTED : kind;
    return new Failure(theirs, newMessage, rank, host, pid, missing, namesCalls);
  }

  public Failure withMessage(String newMessage) {
    return new Failure(kind, newMessage, rank, host, pid, missing, namesCalls);
  }

  /**
   * As another group's members see it.
   *
   * @param ranks that group's members by their rank in this one, in the order of their new ranks;
   *     whom it does not have is rank -1 there
   */
  public Failure among(int[] ranks, String newMessage) {
    int[] missingThere =
        IntStream.range(0, ranks.length)
            .filter(r -> IntStream.of(missing).anyMatch(old -> old == ranks[r]))
            .toArray();
    int rankThere = Message.Split.newRank(rank, ranks).orElse(-1);
    return new Failure(kind, newMessage, rankThere, host, pid, missingThere, namesCalls);
  }

  /** Of a sentence that the native library made of all ranks' calls. */
  public Failure namingCalls() {
    return new Failure(kind, message, rank, host, pid, missing, true);
  }

  /** A new exception whose stack is the caller's. */
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
