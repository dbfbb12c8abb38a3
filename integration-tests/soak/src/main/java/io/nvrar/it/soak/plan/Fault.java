package io.nvrar.it.soak.plan;

import java.util.Locale;

/**
 * The fault of a round, and its moment: {@code delayMicros} after rank {@code rank} of the round's
 * first group has reached {@code step} of {@code phase}.
 *
 * @param kind the kind of fault
 * @param rank the rank that suffers or causes it
 * @param phase the phase in which it happens
 * @param step the call before which it happens; 0 outside of {@link Phase#CALL}
 * @param delayMicros the delay after that
 * @param variant the variant, for kinds that have several
 * @param pauseMillis how long a stop or a delay lasts
 * @param peer the rank at the other end of a link that is cut; -1 for all other kinds
 */
public record Fault(
    Kind kind,
    int rank,
    Phase phase,
    int step,
    int delayMicros,
    int variant,
    int pauseMillis,
    int peer) {

  public static final Fault NONE = new Fault(Kind.NONE, 0, Phase.CALL, 0, 0, 0, 0, -1);

  /**
   * The kinds of faults. Some are caused by the member itself, others by the controller from
   * outside.
   */
  public enum Kind {
    NONE(false, 1),
    /** A rank is late for a call. */
    DELAY(false, 1),
    /** A rank passes a bad argument, which is refused; the group is not affected. */
    BAD_ARGUMENT(false, 1),
    /** A rank's call differs in type, operation, root, collective or count. */
    DIFFERENT_CALL(false, 2),
    /** A rank makes two calls in the other order. */
    SWAPPED_CALLS(false, 2),
    /** A rank leaves a call out. */
    MISSING_CALL(false, 2),
    /** A rank aborts from another thread. */
    ABORT(false, 2),
    /** A rank closes while the others continue. */
    EARLY_CLOSE(false, 2),
    /** A rank closes from another thread while its own call runs. */
    CLOSE_IN_CALL(false, 2),
    /** A rank's process breaks the connection of one of its links to another host. */
    CUT_LINK(false, 2),
    /** SIGKILL to a rank's process. */
    KILL(true, 2),
    /** SIGSTOP, and SIGCONT well within the limits. */
    SHORT_STOP(true, 2),
    /** SIGSTOP beyond a limit, then SIGCONT. */
    LONG_STOP(true, 2),
    /** SIGKILL to the process that observes the group. */
    OBSERVER_KILL(true, 1),
    /** The observer aborts the group. */
    OBSERVER_ABORT(true, 1),
    /** The observer destroys the group. */
    OBSERVER_DESTROY(true, 1),
    /** Strangers without the secret connect to the rendezvous. */
    STRANGERS(true, 1);

    /** Whether the controller causes it. */
    public final boolean external;

    /** The smallest world size for which it makes sense. */
    final int leastWorldSize;

    Kind(boolean external, int leastWorldSize) {
      this.external = external;
      this.leastWorldSize = leastWorldSize;
    }

    /** Whether it happens only to groups on several hosts. */
    boolean needsLinks() {
      return this == CUT_LINK;
    }

    /** Whether it comes at any moment, and not with a call of one rank. */
    boolean comesAnytime() {
      return external || this == CUT_LINK;
    }

    public boolean needsObserver() {
      return this == OBSERVER_KILL || this == OBSERVER_ABORT || this == OBSERVER_DESTROY;
    }
  }

  /** Variants of {@link Kind#LONG_STOP}: which limit the stop exceeds. */
  static final int BEYOND_HEARTBEAT = 0;

  public static final int BEYOND_CALL_TIMEOUT = 1;

  public boolean isBefore(Phase atPhase, int atStep) {
    return phase == atPhase && step == atStep;
  }

  @Override
  public String toString() {
    return kind == Kind.NONE
        ? "no fault"
        : String.format(
            Locale.ROOT,
            "%s at rank %d%s in %s%s + %d us%s",
            kind,
            rank,
            peer < 0 ? "" : " to rank " + peer + ", way " + variant,
            phase,
            phase == Phase.CALL ? " " + step : "",
            delayMicros,
            pauseMillis == 0 ? "" : " for " + pauseMillis + " ms");
  }
}
