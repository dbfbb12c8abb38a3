package io.nvrar.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** A member's group has lost a rank; comes with a {@link GroupFailedEvent}. */
@Name("io.nvrar.PeerLost")
@Label("Peer Lost")
@Category("ray-nvrar")
@StackTrace(false)
final class PeerLostEvent extends Event {
  @Label("Group")
  @Nullable String group;

  @Label("Rank")
  int rank;

  @Label("Lost Rank")
  int lostRank;

  @Label("Host")
  @Nullable String host;

  @Label("Process")
  long pid;
}
