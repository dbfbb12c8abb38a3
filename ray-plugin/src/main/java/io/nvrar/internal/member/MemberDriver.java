package io.nvrar.internal.member;

/**
 * A member's knowledge about its group's driver, as independent flags. They are not phases of the
 * member: each can be set in any phase, independently of the others, and is never reset.
 * Thread-safe.
 */
final class MemberDriver {
  private volatile boolean isDriven;
  private volatile boolean hasEnded;
  private volatile boolean isDestroyed;
  private volatile boolean isAnotherDestroyed;

  /** Records that the driver closes this member. */
  void drives() {
    isDriven = true;
  }

  boolean isDriven() {
    return isDriven;
  }

  /** Records that the driver has ended the group, is lost, or cannot be reached any more. */
  void ended() {
    hasEnded = true;
  }

  boolean hasEnded() {
    return hasEnded;
  }

  /**
   * Records that the driver has destroyed the group. The user may already have closed this member.
   */
  void destroys() {
    isDestroyed = true;
  }

  boolean isDestroyed() {
    return isDestroyed;
  }

  /** Records that another member has closed because the driver destroyed the group. */
  void destroysAnother() {
    isAnotherDestroyed = true;
  }

  /** Whether the driver has destroyed this member or another. */
  boolean isAnyDestroyed() {
    return isDestroyed || isAnotherDestroyed;
  }
}
