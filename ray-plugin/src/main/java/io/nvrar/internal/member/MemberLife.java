package io.nvrar.internal.member;

import java.util.function.BooleanSupplier;

/**
 * The phase of a member's life, and the manner of its close. Both change under the monitor, which
 * wakes the waiting threads; calls read them without the monitor.
 */
final class MemberLife {

  /**
   * The phases. The table shows the next phase for each event; a dash means no change, and there is
   * no way back:
   *
   * <pre>
   *            all have    its calls   its channel's   all is
   *            connected   end         thread is over  freed
   * JOINING    OPEN        GIVEN_UP    ENDED           -
   * OPEN       -           CLOSING     ENDED           -
   * GIVEN_UP   CLOSING     -           ENDED           -
   * CLOSING    -           -           ENDED           -
   * ENDED      -           -           -               FREED
   * FREED      -           -           -               -
   * </pre>
   *
   * A failure is not a phase: it can occur in any phase before ENDED and does not change the phase.
   * {@link FirstFailure} holds it.
   */
  private enum Phase {
    /** Not all members are connected. */
    JOINING,
    /** Calls are accepted. */
    OPEN,
    /** The member closes before all were connected; the other members may not know that yet. */
    GIVEN_UP,
    /**
     * No further call is accepted; the channel's thread announces the close and waits for the
     * others.
     */
    CLOSING,
    /** The channel's thread has ended, for whatever reason, and frees the member's resources. */
    ENDED,
    /** All resources are freed. */
    FREED;

    private boolean isReady() {
      return this != JOINING && this != GIVEN_UP;
    }

    private boolean isClosing() {
      return this != JOINING && this != OPEN;
    }

    private boolean isEnded() {
      return this == ENDED || this == FREED;
    }

    private Phase whenAllAreConnected() {
      return this == JOINING ? OPEN : this == GIVEN_UP ? CLOSING : this;
    }

    private Phase whenCallsEnd() {
      return this == JOINING ? GIVEN_UP : this == OPEN ? CLOSING : this;
    }
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

  private final Monitor monitor;
  private volatile Phase phase = Phase.JOINING;
  private volatile Manner manner = Manner.UNDECIDED;

  MemberLife(Monitor monitor) {
    this.monitor = monitor;
  }

  void allAreConnected() {
    monitor.update(() -> phase = phase.whenAllAreConnected());
  }

  /**
   * Refuses further calls.
   *
   * @param byItself whether this is because the group has failed and nobody will close it
   * @param hasFailed evaluated under the lock
   * @return whether it has
   */
  boolean endCalls(boolean byItself, BooleanSupplier hasFailed) {
    return monitor.locked(
        () -> {
          boolean failed = hasFailed.getAsBoolean();
          // Before the phase, so that a thread that sees the close also sees its manner.
          if (byItself) {
            manner = isClosing() ? manner : Manner.BY_ITSELF;
          } else if (!manner.isWithoutFailure()) {
            manner = failed ? Manner.AFTER_FAILURE : Manner.IN_ORDER;
          }
          monitor.update(() -> phase = phase.whenCallsEnd());
          return failed;
        });
  }

  /** The close aborts a call. */
  void cutShort() {
    monitor.update(() -> manner = Manner.CUT_SHORT);
  }

  /** The channel's thread has ended. */
  void ended() {
    monitor.update(() -> phase = Phase.ENDED);
  }

  void freed() {
    monitor.update(() -> phase = Phase.FREED);
  }

  /** Whether every member is connected; meaningless after the end. */
  boolean isReady() {
    return phase.isReady();
  }

  /** Whether further calls are refused. */
  boolean isClosing() {
    return phase.isClosing();
  }

  /** Whether the channel's thread has ended. */
  boolean isEnded() {
    return phase.isEnded();
  }

  boolean isFreed() {
    return phase == Phase.FREED;
  }

  /** Whether its user or the driver has closed it. */
  boolean isClosed() {
    return isClosing() && manner != Manner.BY_ITSELF;
  }

  /** Whether it was closed before the group failed. */
  boolean isClosedFirst() {
    return manner.isWithoutFailure();
  }

  /** Whether its close has aborted a call. */
  boolean isCutShort() {
    return manner == Manner.CUT_SHORT;
  }
}
