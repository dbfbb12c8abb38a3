package io.nvrar.tools.soak.plan;

/** What a member is about. */
public enum Phase {
  CREATE,
  CALL,
  /** It splits the group, or is in a group that it was split into. */
  SPLIT,
  CLOSE
}
