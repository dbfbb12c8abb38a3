package io.nvrar.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** A member has learnt that its group has failed. */
@Name("io.nvrar.GroupFailed")
@Label("Group Failed")
@Category("ray-nvrar")
@StackTrace(false)
final class GroupFailedEvent extends Event {
  @Label("Group")
  @Nullable String group;

  @Label("Rank")
  int rank;

  @Label("Exception")
  @Nullable String exception;

  @Label("Reason")
  @Nullable String reason;
}
