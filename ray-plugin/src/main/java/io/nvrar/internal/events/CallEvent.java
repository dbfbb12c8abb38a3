package io.nvrar.internal.events;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** A call of a group. */
@Name(CallEvent.NAME)
@Label("Collective Call")
@Description("A call of a group; on a GPU, how long it took to enqueue it")
@Category("ray-nvrar")
@Enabled(false) // there may be some hundred thousand a second
@StackTrace(false) // it would take longer than the call
final class CallEvent extends Event {
  static final String NAME = "io.nvrar.Call";

  /** Asked whether anybody records calls: a new event would have to be made first. */
  static final CallEvent PROBE = new CallEvent();

  @Label("Group")
  @Nullable String group;

  @Label("Rank")
  int rank;

  @Label("Call")
  @Description(
      "The collective or batch, the type of its elements, and the algorithm of an all-reduce")
  @Nullable String call;

  @Label("Bytes")
  @DataAmount
  long bytes;
}
