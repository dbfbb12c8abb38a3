package io.nvrar.internal.group;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.ClosedRanks;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import java.util.EnumSet;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What one member knows of its group at one moment: a snapshot, and the transitions to the next
 * one. A snapshot does not change after {@link GroupAgent} has published it, and no transition has
 * a way back.
 */
final class GroupState {

  /**
   * The phases. The table shows the next phase for each event; a dash means no change:
   *
   * <pre>
   *           its calls   its channel's   all is
   *           end         thread is over  freed
   * OPEN      CLOSING     ENDED           -
   * CLOSING   -           ENDED           -
   * ENDED     -           -               FREED
   * FREED     -           -               -
   * </pre>
   *
   * Whether all members are connected is a {@link Fact}, because a member may close before that. A
   * failure is none of these: it can occur in any phase before ENDED and does not change the phase.
   */
  private enum Phase {
    /** Calls are accepted once all members are connected. */
    OPEN,
    /**
     * No further call is accepted; the channel's thread announces the close and waits for the
     * others.
     */
    CLOSING,
    /** The channel's thread has ended, for whatever reason, and frees the member's resources. */
    ENDED,
    /** All resources are freed. */
    FREED
  }

  /**
   * The manner of the close. It is separate from the phase, because it may still be decided after
   * the member has ended: a member that left by itself is freed long before its user closes it, and
   * a close may cut short work that a device executes at the end.
   *
   * <pre>
   *                it leaves   it is closed,   it is closed    a call is
   *                by itself   and has failed  without a       cut short
   *                                            failure
   * UNDECIDED      BY_ITSELF   AFTER_FAILURE   IN_ORDER        CUT_SHORT
   * BY_ITSELF      -           AFTER_FAILURE   cannot be       cannot be
   * AFTER_FAILURE  -           -               cannot be       cannot be
   * IN_ORDER       -           -               -               CUT_SHORT
   * CUT_SHORT      -           -               -               -
   * </pre>
   */
  private enum Manner {
    /** Nobody has closed the member; if it has ended, its channel has ended. */
    UNDECIDED,
    /** The member has left a failed group by itself; for its user it is not closed. */
    BY_ITSELF,
    /** The group had failed when the user or the driver closed the member. */
    AFTER_FAILURE,
    /** The group had not failed when the member was closed; it may have failed since. */
    IN_ORDER,
    /** As IN_ORDER, and the close has aborted a call. */
    CUT_SHORT;

    private boolean isWithoutFailure() {
      return this == IN_ORDER || this == CUT_SHORT;
    }
  }

  /** What can become known in any phase, independently of the rest, and stays. */
  enum Fact {
    /** Every member is connected. */
    FORMED,
    /** A driver closes this member. */
    DRIVEN,
    /** The driver has ended the group, is lost, or cannot be reached any more. */
    DRIVER_ENDED,
    /** The driver has destroyed the group. The user may already have closed this member. */
    DESTROYED,
    /** Another member has closed because the driver destroyed the group. */
    ANOTHER_DESTROYED,
    /** The hub cannot be reached any more. */
    HUB_GONE,
    /** The hub has said that all members have closed. */
    ALL_CLOSED
  }

  private Phase phase = Phase.OPEN;
  private Manner manner = Manner.UNDECIDED;

  /** Never changed. */
  private EnumSet<Fact> facts;

  private Message.@Nullable Members members;
  private @Nullable NativeCommunicator communicator;
  private boolean isAsync;
  private ClosedRanks closedRanks = ClosedRanks.NONE;
  private @Nullable Failure failure;
  private @Nullable Throwable cause;

  GroupState() {
    facts = EnumSet.noneOf(Fact.class);
  }

  private GroupState(GroupState from) {
    facts = from.facts;
    take(from);
  }

  // Transitions. Each returns another object.

  private GroupState with(Consumer<GroupState> change) {
    GroupState next = new GroupState(this);
    change.accept(next);
    return next;
  }

  private void take(GroupState from) {
    phase = from.phase;
    manner = from.manner;
    facts = from.facts;
    members = from.members;
    communicator = from.communicator;
    isAsync = from.isAsync;
    closedRanks = from.closedRanks;
    failure = from.failure;
    cause = from.cause;
  }

  GroupState with(Fact fact) {
    if (has(fact)) {
      return this;
    }
    EnumSet<Fact> more = EnumSet.copyOf(facts);
    more.add(fact);
    return with(next -> next.facts = more);
  }

  GroupState withMembers(Message.Members all) {
    return with(next -> next.members = all);
  }

  /**
   * From now on calls can be made.
   *
   * @param async whether calls may fail after they have returned
   */
  GroupState withCommunicator(NativeCommunicator prepared, boolean async) {
    return with(
        next -> {
          next.communicator = prepared;
          next.isAsync = async;
        });
  }

  /** A rank makes no collective after this number, and no further transfer. */
  GroupState withClosed(int rank, long sequence) {
    return with(next -> next.closedRanks = closedRanks.with(rank, sequence));
  }

  /**
   * Further calls are refused.
   *
   * @param byItself whether this is because the group has failed and nobody will close it
   */
  GroupState callsEnd(boolean byItself) {
    return with(
        next -> {
          if (byItself) {
            next.manner = isClosing() ? manner : Manner.BY_ITSELF;
          } else if (!manner.isWithoutFailure()) {
            next.manner = hasFailed() ? Manner.AFTER_FAILURE : Manner.IN_ORDER;
          }
          next.phase = phase == Phase.OPEN ? Phase.CLOSING : phase;
        });
  }

  /** The close aborts a call. */
  GroupState cutShort() {
    return manner == Manner.BY_ITSELF || manner == Manner.AFTER_FAILURE
        ? this
        : with(next -> next.manner = Manner.CUT_SHORT);
  }

  /** The channel's thread has ended. */
  GroupState ended() {
    return isFreed() ? this : with(next -> next.phase = Phase.ENDED);
  }

  GroupState freed() {
    return with(next -> next.phase = Phase.FREED);
  }

  /**
   * The group has failed, if it {@link #canFail}.
   *
   * @param by the exception of this process that led to it, if one did
   */
  GroupState failed(Failure reason, @Nullable Throwable by) {
    return failed(reason, by, new GroupState());
  }

  /**
   * {@link #failed(Failure, Throwable)} without memory.
   *
   * @param spare becomes the next state; used once
   */
  GroupState failed(Failure reason, @Nullable Throwable by, GroupState spare) {
    if (!canFail()) {
      return this;
    }
    spare.take(this);
    spare.failure = reason;
    spare.cause = by;
    return spare;
  }

  // Questions.

  boolean has(Fact fact) {
    return facts.contains(fact);
  }

  /** All members; null until they are known. */
  Message.@Nullable Members members() {
    return members;
  }

  /** The native member; null before it is prepared. */
  @Nullable NativeCommunicator communicator() {
    return communicator;
  }

  /** Whether calls may fail after they have returned, so that failures must be polled. */
  boolean isAsync() {
    return isAsync;
  }

  ClosedRanks closedRanks() {
    return closedRanks;
  }

  /** The first failure; null if the group has not failed. */
  @Nullable Failure failure() {
    return failure;
  }

  /** The exception of this process that led to the failure; null if none did. */
  @Nullable Throwable cause() {
    return cause;
  }

  boolean hasFailed() {
    return failure != null;
  }

  /** Whether nothing keeps any further call from being made. */
  boolean isUnharmed() {
    return phase == Phase.OPEN
        && manner == Manner.UNDECIDED
        && failure == null
        && closedRanks.areNone();
  }

  /** Whether further calls are refused. */
  boolean isClosing() {
    return phase != Phase.OPEN;
  }

  /** Whether the channel's thread has ended. */
  boolean isEnded() {
    return phase == Phase.ENDED || phase == Phase.FREED;
  }

  boolean isFreed() {
    return phase == Phase.FREED;
  }

  /** Whether a failure would still count: it has not failed, ended, or cut a call short. */
  boolean canFail() {
    return failure == null && !isEnded() && !isCutShort();
  }

  /** Whether its user or the driver has closed it. */
  boolean isClosed() {
    return manner == Manner.AFTER_FAILURE || manner.isWithoutFailure();
  }

  /** Whether it was closed before the group failed. */
  boolean isClosedFirst() {
    return manner.isWithoutFailure();
  }

  /** Whether its close has aborted a call. */
  boolean isCutShort() {
    return manner == Manner.CUT_SHORT;
  }

  /** Whether the driver has destroyed this member or another. */
  boolean isAnyDestroyed() {
    return has(Fact.DESTROYED) || has(Fact.ANOTHER_DESTROYED);
  }

  /** Whether nobody is left who could tell this member to close. */
  boolean isForsaken() {
    return has(Fact.DRIVER_ENDED) || has(Fact.HUB_GONE);
  }
}
