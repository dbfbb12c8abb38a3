package io.nvrar.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** A member has left a group. */
@Name("io.nvrar.GroupClosed")
@Label("Group Closed")
@Category("ray-nvrar")
@StackTrace(false)
final class GroupClosedEvent extends Event {
  @Label("Group")
  @Nullable String group;

  @Label("Rank")
  int rank;

  @Label("World Size")
  int worldSize;

  @Label("Backend")
  @Nullable String backend;
}
