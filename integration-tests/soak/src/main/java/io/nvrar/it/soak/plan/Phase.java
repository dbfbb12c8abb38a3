package io.nvrar.it.soak.plan;

/** The phases of a member's run. */
public enum Phase {
  CREATE,
  CALL,
  /** The member splits the group, or uses the group that it joined by the split. */
  SPLIT,
  CLOSE
}
