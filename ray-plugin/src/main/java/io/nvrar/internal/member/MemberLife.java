package io.nvrar.internal.member;

import java.util.function.BooleanSupplier;

/**
 * In which phase of its life a member is, and in what manner it closes. Both change under the
 * monitor, and whoever waits there looks again; every call reads them without it.
 */
final class MemberLife {

  /**
   * How far it is. What leads on, and where to; at a dash nothing changes, and no way leads back:
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
   * A failure is no phase: it can come in each before ENDED and moves none on, and {@link
   * FirstFailure} knows it.
   */
  private enum Phase {
    /** Not all members are connected. */
    JOINING,
    /** Calls can be made. */
    OPEN,
    /** It closes before all were connected, of which the others may know nothing yet. */
    GIVEN_UP,
    /** No further call can be made; the channel's thread tells so and waits for the others. */
    CLOSING,
    /** The channel's thread has ended, for whatever reason, and frees what the member holds. */
    ENDED,
    /** It holds nothing any more. */
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
   * In what manner it closes. No phase, because it is still decided when the member has ended: one
   * that has left by itself is freed long before its user closes it, and what a close cuts short
   * may be what a device executes at the end.
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
    /** Nobody has closed it; if it has ended, its channel has. */
    UNDECIDED,
    /** It has left a failed group by itself; for its user it is not closed. */
    BY_ITSELF,
    /** It had failed when its user or its driver closed it. */
    AFTER_FAILURE,
    /** It had not; it may have failed since. */
    IN_ORDER,
    /** The same, and its close has ended a call. */
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
   * No further call is made.
   *
   * @param byItself because the group has failed, and nobody will close it
   * @param hasFailed looked at under the lock
   * @return whether it has
   */
  boolean endCalls(boolean byItself, BooleanSupplier hasFailed) {
    return monitor.locked(
        () -> {
          boolean failed = hasFailed.getAsBoolean();
          // Before the phase: whoever sees that it closes sees in what manner.
          if (byItself) {
            manner = isClosing() ? manner : Manner.BY_ITSELF;
          } else if (!manner.isWithoutFailure()) {
            manner = failed ? Manner.AFTER_FAILURE : Manner.IN_ORDER;
          }
          monitor.update(() -> phase = phase.whenCallsEnd());
          return failed;
        });
  }

  /** Its close ends a call. */
  void cutShort() {
    monitor.update(() -> manner = Manner.CUT_SHORT);
  }

  /** The channel's thread is over. */
  void ended() {
    monitor.update(() -> phase = Phase.ENDED);
  }

  void freed() {
    monitor.update(() -> phase = Phase.FREED);
  }

  /** Whether every member is connected; of one that has ended it matters no more. */
  boolean isReady() {
    return phase.isReady();
  }

  /** Whether no further call can be made. */
  boolean isClosing() {
    return phase.isClosing();
  }

  /** Whether the channel's thread is over. */
  boolean isEnded() {
    return phase.isEnded();
  }

  boolean isFreed() {
    return phase == Phase.FREED;
  }

  /** Whether its user, or the driver, has it close. */
  boolean isClosed() {
    return isClosing() && manner != Manner.BY_ITSELF;
  }

  /** Whether it was still without a failure when it was closed. */
  boolean isClosedFirst() {
    return manner.isWithoutFailure();
  }

  /** Whether its close has ended a call. */
  boolean isCutShort() {
    return manner == Manner.CUT_SHORT;
  }
}
