package io.nvrar.tools.soak;

/** What a member is about. */
enum Phase {
  CREATE,
  CALL,
  /** It splits the group, or is in a group that it was split into. */
  SPLIT,
  CLOSE
}
