package io.nvrar.cli.soak;

/** What a member is about. */
enum Phase {
  CREATE,
  CALL,
  CLOSE
}
