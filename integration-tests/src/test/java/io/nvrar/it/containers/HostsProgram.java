package io.nvrar.it.containers;

import static io.nvrar.it.actors.Calls.all;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayActorGroup.Options;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import java.util.ArrayList;
import java.util.List;

/**
 * The driver in the head: does what a test asks for and says what came of it, a fact a line, which
 * the test judges.
 */
final class HostsProgram {

  /** A line of facts begins so; Ray's own lines do not. */
  static final String FACT = "fact ";

  static final String COLLECTIVES = "collectives";
  static final String SPAN = "span";

  /** How often the same group is tried. */
  static final int REFUSALS = 8;

  /** How long members may take to let go of a group that was refused. */
  private static final int RELEASE_MILLIS = 10_000;

  private HostsProgram() {}

  public static void main(String[] args) throws InterruptedException {
    Ray.init();
    try {
      switch (args[0]) {
        case COLLECTIVES -> collectives(args[1]);
        case SPAN -> span(args[1], args[2]);
        default -> throw new IllegalArgumentException(args[0]);
      }
    } finally {
      Ray.shutdown();
    }
  }

  private static void collectives(String host) {
    try (RayActorGroup<Probe> actors = actorsOn(host, 4);
        RayCollectiveGroup group = RayCollectives.createGroup("together", actors.handles())) {
      Ray.get(actors.callAll(Probe::host)).forEach(name -> say("host", name));
      for (Collective collective : Collective.values()) {
        Call call = Call.of(collective, DataType.BFLOAT16, 10_001).root(1);
        Calls.wrong(actors.handles(), group.name(), call)
            .forEach(wrong -> say(collective.name(), wrong));
      }
    }
  }

  /** Two actors on either host, rank 0 on the first. */
  private static void span(String first, String second) throws InterruptedException {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> all = new ArrayList<>(here.handles());
      all.addAll(there.handles());
      // So that what a first group opens for good, such as the native library, is there before.
      sum("span", here.handles());
      sum("span", there.handles());
      List<Integer> before = all(all, actor -> actor.task(Probe::openFiles).remote());
      for (int i = 0; i < REFUSALS; i++) {
        try (RayCollectiveGroup group = RayCollectives.createGroup("span", all)) {
          say("created", group.name());
        } catch (CollectiveException e) {
          say("refused", String.valueOf(e.getMessage()));
        }
      }
      all(all, actor -> actor.task(Probe::isGroupInitialized, "span").remote())
          .forEach(is -> say("initialized", is));
      say("held", released(all, before));
      sum("span", here.handles());
      sum("span", there.handles());
    }
  }

  /** What the actors still hold of a group after a while; "" once they hold nothing. */
  private static String released(List<ActorHandle<Probe>> actors, List<Integer> before)
      throws InterruptedException {
    long deadline = System.nanoTime() + RELEASE_MILLIS * 1_000_000L;
    while (true) {
      List<String> held = all(actors, actor -> actor.task(Probe::held).remote());
      List<Integer> files = all(actors, actor -> actor.task(Probe::openFiles).remote());
      boolean nothing = held.stream().allMatch(String::isEmpty);
      for (int i = 0; i < files.size(); i++) {
        // Ray opens and closes a few of its own; a file left by each refusal would be as many.
        nothing &= files.get(i) < before.get(i) + REFUSALS;
      }
      if (nothing || System.nanoTime() - deadline > 0) {
        return nothing ? "" : held + ", open files " + files + ", before " + before;
      }
      Thread.sleep(100);
    }
  }

  private static void sum(String name, List<ActorHandle<Probe>> actors) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors)) {
      Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 9);
      Calls.wrong(actors, group.name(), sum).forEach(wrong -> say("sum", wrong));
    }
  }

  private static RayActorGroup<Probe> actorsOn(String host, int count) {
    return RayActorGroup.create(
        Probe::new,
        count,
        Options.gpus(1).resource(host, 1).heap("128m").jvmOption("-XX:TieredStopAtLevel=1"));
  }

  private static void say(String name, Object fact) {
    System.out.println(FACT + name + "=" + fact);
  }
}
