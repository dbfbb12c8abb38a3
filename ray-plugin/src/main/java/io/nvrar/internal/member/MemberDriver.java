package io.nvrar.internal.member;

/**
 * What a member knows of its group's driver. None of it is a phase of the member: each can be
 * learnt in any phase and without the others, and is never taken back. Any thread.
 */
final class MemberDriver {
  private volatile boolean isDriven;
  private volatile boolean hasEnded;
  private volatile boolean isDestroyed;
  private volatile boolean isAnotherDestroyed;

  /** It is the driver that has this member close. */
  void drives() {
    isDriven = true;
  }

  boolean isDriven() {
    return isDriven;
  }

  /** The driver has ended the group, is lost, or cannot be heard any more. */
  void ended() {
    hasEnded = true;
  }

  boolean hasEnded() {
    return hasEnded;
  }

  /** The driver has all close, and this member has heard of it; its user may have closed it. */
  void destroys() {
    isDestroyed = true;
  }

  boolean isDestroyed() {
    return isDestroyed;
  }

  /** Another member has closed because the driver wants it of all. */
  void destroysAnother() {
    isAnotherDestroyed = true;
  }

  /** Whether this member or another is destroyed. */
  boolean isAnyDestroyed() {
    return isDestroyed || isAnotherDestroyed;
  }
}
