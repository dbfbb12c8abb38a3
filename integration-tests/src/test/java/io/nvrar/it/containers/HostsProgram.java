package io.nvrar.it.containers;

import static io.nvrar.it.actors.Calls.all;
import static io.nvrar.it.containers.Facts.say;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.GroupHealth;
import io.nvrar.LinkSecurity;
import io.nvrar.PeerLostException;
import io.nvrar.RankHealth;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.options.PlacementGroupCreationOptions;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementStrategy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * The driver in the head: does what a test asks for and says what came of it, a fact a line, which
 * the test judges.
 */
final class HostsProgram {

  static final String COLLECTIVES = "collectives";
  static final String SPAN = "span";
  static final String APART = "apart";
  static final String LOSS = "loss";
  static final String NODES = "nodes";
  static final String SIZES = "sizes";
  static final String DIVIDED = "divided";
  static final String REFUSED = "refused";

  static final String WALLED = "walled";

  static final String LATE = "late";

  /** The ports of the links of {@link #WALLED} and {@link #LATE}, four from here on. */
  static final int FIRST_PORT = 7_000;

  /** Once this file is there {@link #WALLED} makes its group again, and {@link #LATE} sends. */
  static final String OPEN = "/tmp/open";

  static final int MOST_RANKS = 8;

  private static final int EMPTY_SECONDS = 30;
  private static final long FREED_MILLIS = 1_500;

  /** How often the same group is refused. */
  static final int REFUSALS = 8;

  /** How long members may take to let go of a group that was refused. */
  private static final int RELEASE_MILLIS = 10_000;

  /** How long ranks may take to know of each other's last calls. */
  private static final int HEALTH_MILLIS = 10_000;

  /** How long an actor takes part in a group's calls before it is killed. */
  private static final int MILLIS_TO_LIVE = 1_000;

  private HostsProgram() {}

  public static void main(String[] args) throws InterruptedException {
    Ray.init();
    try {
      switch (args[0]) {
        case COLLECTIVES -> collectives(args[1]);
        case SPAN -> span(args[1], args[2]);
        case APART -> apart(args[1], args[2]);
        case LOSS -> loss(args[1], args[2]);
        case NODES -> nodes();
        case SIZES -> sizes(List.of(args).subList(1, args.length));
        case DIVIDED -> divided();
        case REFUSED -> refused(args[1], args[2]);
        case WALLED -> walled(args[1], args[2]);
        case LATE -> late(args[1], args[2]);
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
      everyCollective(actors.handles(), group);
    }
  }

  private static void everyCollective(List<ActorHandle<Probe>> actors, RayCollectiveGroup group) {
    for (Collective collective : Collective.values()) {
      Call call = Call.of(collective, DataType.BFLOAT16, 10_001).root(1);
      Calls.wrong(actors, group.name(), call).forEach(wrong -> say(collective.name(), wrong));
    }
  }

  /** Two actors on either host, rank 0 on the first. */
  private static void span(String first, String second) throws InterruptedException {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> all = inTurns(here, there, 2);
      // So that the actors have started.
      all(all, actor -> actor.task(Probe::pid).remote());
      span(all).close();
      try (RayCollectiveGroup group = span(all)) {
        everyCollective(all, group);
        all(all, actor -> actor.task(Probe::sumOfHalf, "span").remote())
            .forEach(half -> say("half", half));
        all(all, actor -> actor.task(Probe::sumOfMixed, "span").remote())
            .forEach(mixed -> say("mixed", mixed));
        for (GroupHealth health : health(all)) {
          say("health", health.ranks().stream().map(RankHealth::host).toList());
          health.ranks().forEach(rank -> say("sequence", rank.sequence()));
          health.ranks().forEach(rank -> say("link", String.valueOf(rank.link())));
        }
      }
    }
  }

  private static RayCollectiveGroup span(List<ActorHandle<Probe>> actors) {
    long begin = System.nanoTime();
    RayCollectiveGroup group = RayCollectives.createGroup("span", actors);
    say("created", (System.nanoTime() - begin) / 1_000_000);
    return group;
  }

  /**
   * What every rank knows, once all know the same last call of every rank, or after a while: one
   * waits only a moment for what ranks on the other host answer.
   */
  private static List<GroupHealth> health(List<ActorHandle<Probe>> actors)
      throws InterruptedException {
    long deadline = System.nanoTime() + HEALTH_MILLIS * 1_000_000L;
    while (true) {
      List<GroupHealth> known = all(actors, actor -> actor.task(Probe::health, "span").remote());
      long different =
          known.stream()
              .flatMap(health -> health.ranks().stream())
              .mapToLong(RankHealth::sequence)
              .distinct()
              .count();
      if (different == 1 || System.nanoTime() - deadline > 0) {
        return known;
      }
      Thread.sleep(100);
    }
  }

  /** The same actors, those of either host apart. */
  private static void apart(String first, String second) throws InterruptedException {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> apart = inTurns(here, there, 1);
      List<ActorHandle<Probe>> right = inTurns(here, there, 2);
      // So that what a first group opens for good, such as the native library, is there before.
      sum("span", right);
      List<Integer> before = all(right, actor -> actor.task(Probe::openFiles).remote());
      for (int i = 0; i < REFUSALS; i++) {
        try (RayCollectiveGroup group = RayCollectives.createGroup("span", apart)) {
          say("created", group.name());
        } catch (CollectiveException e) {
          say("refused", String.valueOf(e.getMessage()));
        }
      }
      all(right, actor -> actor.task(Probe::isGroupInitialized, "span").remote())
          .forEach(is -> say("initialized", is));
      say("held", released(right, before));
      sum("span", right);
    }
  }

  /** Kills the last actor on the second host while all are in their calls. */
  private static void loss(String first, String second) {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> all = inTurns(here, there, 2);
      ActorHandle<Probe> victim = all.get(3);
      say("pid", Ray.get(victim.task(Probe::pid).remote()));
      try (RayCollectiveGroup group = RayCollectives.createGroup("span", all)) {
        Ray.get(victim.task(Probe::dieIn, MILLIS_TO_LIVE).remote());
        List<ObjectRef<Long>> calls =
            Calls.start(all, actor -> actor.task(Probe::reduceForever, "span").remote());
        Calls.failure(calls.get(3));
        long known = System.nanoTime();
        calls.subList(0, 3).forEach(call -> sayThrown(Calls.failure(call)));
        say("millis", (System.nanoTime() - known) / 1_000_000);
        sayThrown(Objects.requireNonNull(group.failure()));
      }
      sum("span", all.subList(0, 3));
    }
  }

  private static void nodes() {
    runs(4, probes().nodes(2));
    runs(5, probes().spread());
    runs(3, probes().pack());
    runs(6, probes().pack());
    runs(4, probes().gpus(0.6).nodes(2)); // two on a host take a GPU each
    try (RayActorGroup<Probe> three = probes().nodes(3).create(3)) {
      say("created", three.handles());
    } catch (IllegalStateException e) {
      say("refused", String.valueOf(e.getMessage()));
    }
  }

  /** Groups of 2 to 8 ranks of 8 actors on these hosts, most of them with uneven hosts. */
  private static void sizes(List<String> hosts) {
    List<RayActorGroup<Probe>> actors = new ArrayList<>();
    int each = (MOST_RANKS + hosts.size() - 1) / hosts.size();
    try {
      for (String host : hosts) {
        int left = MOST_RANKS - each * actors.size();
        actors.add(actorsOn(host, Math.min(each, left)));
      }
      for (int world = 2; world <= MOST_RANKS; world++) {
        List<ActorHandle<Probe>> members = members(actors, world);
        try (RayCollectiveGroup group = RayCollectives.createGroup("sizes", members)) {
          everyCollective(members, group);
          GroupHealth health = Ray.get(members.get(0).task(Probe::health, group.name()).remote());
          say("runs", runs(health.ranks().stream().map(RankHealth::host).toList()));
        }
      }
    } finally {
      actors.forEach(RayActorGroup::close);
    }
  }

  /** One of each host as long as there are enough, then all that the last hosts have. */
  private static List<ActorHandle<Probe>> members(List<RayActorGroup<Probe>> hosts, int world) {
    List<ActorHandle<Probe>> members = new ArrayList<>();
    int left = world;
    for (int host = hosts.size() - 1; host >= 0; host--) {
      List<ActorHandle<Probe>> here = hosts.get(host).handles();
      int count = Math.max(0, Math.min(here.size(), left - host));
      members.addAll(0, here.subList(0, count));
      left -= count;
    }
    return members;
  }

  /**
   * Groups that cannot be on two hosts as their configuration says, and after each one that can.
   */
  private static void refused(String first, String second) {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> all = inTurns(here, there, 2);
      // So that what a first group loads takes nothing of the limit.
      sum("refused", all);
      GroupConfig.Builder soon = GroupConfig.builder().joinTimeout(Duration.ofSeconds(4));
      refused("nowhere", all, soon.links(links -> links.networkInterface("127.0.0.0/8")).build());
      refused("absent", all, soon.links(links -> links.networkInterface("203.0.113.0/24")).build());
      refused(
          "ports",
          all,
          soon.links(links -> links.networkInterface("").ports(7_000, 7_000)).build());
      refused("nodes", all, GroupConfig.builder().gpusPerNode(2).build());
      GroupConfig.Builder good = GroupConfig.builder().links(links -> links.ports(7_000, 7_003));
      sum("refused", all, good.links(links -> links.security(LinkSecurity.ENCRYPTED)).build());
    }
  }

  /** A group whose links do not come about, and the same again when they can. */
  private static void walled(String first, String second) throws InterruptedException {
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2)) {
      List<ActorHandle<Probe>> all = inTurns(here, there, 2);
      // So that what a first group loads takes nothing of the limit.
      sum("refused", all);
      GroupConfig.Builder config =
          GroupConfig.builder().links(links -> links.ports(FIRST_PORT, FIRST_PORT + 3));
      refused("walled", all, config.joinTimeout(Duration.ofSeconds(4)).build());
      awaitOpen();
      sum("refused", all, config.build());
    }
  }

  private static void awaitOpen() throws InterruptedException {
    while (!Files.exists(Path.of(OPEN))) {
      Thread.sleep(10);
    }
  }

  /** Rank 2 sends to all others and closes, before those on the first host receive. */
  private static void late(String first, String second) throws InterruptedException {
    GroupConfig config =
        GroupConfig.builder().links(links -> links.ports(FIRST_PORT, FIRST_PORT + 3)).build();
    Call call = Call.of(Collective.SEND_AND_RECV, DataType.FLOAT32, 1_001).root(2);
    try (RayActorGroup<Probe> here = actorsOn(first, 2);
        RayActorGroup<Probe> there = actorsOn(second, 2);
        RayCollectiveGroup group =
            RayCollectives.createGroup("late", inTurns(here, there, 2), config)) {
      say("ready", "");
      awaitOpen();
      Calls.wrong(there.handles(), group.name(), call).forEach(wrong -> say("there", wrong));
      there.handles().get(0).task(Probe::destroyGroup, group.name()).remote();
      Thread.sleep(500); // its close is known to all
      Calls.wrong(here.handles(), group.name(), call).forEach(wrong -> say("here", wrong));
      say("failure", String.valueOf(group.failure()));
    }
  }

  private static void refused(String why, List<ActorHandle<Probe>> actors, GroupConfig config) {
    long begin = System.nanoTime();
    try (RayCollectiveGroup group = RayCollectives.createGroup("refused", actors, config)) {
      say("created", group.name());
    } catch (CollectiveException e) {
      say(why, String.valueOf(e.getMessage()));
    }
    say("millis", (System.nanoTime() - begin) / 1_000_000);
  }

  /** On three hosts of 4 GPUs. */
  private static void divided() {
    runs(3, probes().spread());
    runs(5, probes().spread());
    runs(4, probes().pack());
    runs(5, probes().pack());
    runs(7, probes().nodes(3));
  }

  /**
   * Waits until the actors before are gone: with {@code pack} and {@code spread} it depends on what
   * is free where the next ones are.
   */
  private static void awaitEmpty() {
    List<Map<String, Double>> all =
        Ray.getRuntimeContext().getAllNodeInfo().stream()
            .map(node -> node.resources.getOrDefault("GPU", 0.0))
            .filter(gpus -> gpus > 0)
            .map(gpus -> Map.of("GPU", gpus))
            .toList();
    PlacementGroup everything =
        PlacementGroups.createPlacementGroup(
            new PlacementGroupCreationOptions.Builder()
                .setName("everything-" + UUID.randomUUID())
                .setBundles(all)
                .setStrategy(PlacementStrategy.STRICT_SPREAD)
                .build());
    if (!everything.wait(EMPTY_SECONDS)) {
      throw new IllegalStateException("something still holds GPUs");
    }
    PlacementGroups.removePlacementGroup(everything.getId());
    try {
      // Ray frees a removed group's room later, and looks after up to a second whether there is
      // some.
      Thread.sleep(FREED_MILLIS);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void runs(int count, RayActorGroup.Builder<Probe> probes) {
    awaitEmpty();
    try (RayActorGroup<Probe> actors = probes.create(count)) {
      say("runs", runs(Ray.get(actors.callAll(Probe::host))));
      sum("nodes", actors.handles());
    }
  }

  /** How many consecutive ranks are on a host. */
  private static List<Integer> runs(List<String> hosts) {
    List<Integer> runs = new ArrayList<>();
    String last = "";
    for (String host : hosts) {
      runs.add(host.equals(last) ? runs.remove(runs.size() - 1) + 1 : 1);
      last = host;
    }
    return runs;
  }

  private static void sayThrown(Throwable thrown) {
    say("thrown", thrown.getClass().getName());
    if (thrown instanceof PeerLostException lost) {
      say(
          "lost",
          String.format(Locale.ROOT, "rank %d, %s, %d", lost.lostRank(), lost.host(), lost.pid()));
    }
    say("message", String.valueOf(thrown.getMessage()));
  }

  /** The actors of two groups, of each as many as follow each other at once. */
  private static List<ActorHandle<Probe>> inTurns(
      RayActorGroup<Probe> here, RayActorGroup<Probe> there, int atOnce) {
    List<ActorHandle<Probe>> all = new ArrayList<>();
    for (int i = 0; i < here.handles().size(); i += atOnce) {
      all.addAll(here.handles().subList(i, i + atOnce));
      all.addAll(there.handles().subList(i, i + atOnce));
    }
    return all;
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
    sum(name, actors, GroupConfig.builder().build());
  }

  private static void sum(String name, List<ActorHandle<Probe>> actors, GroupConfig config) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors, config)) {
      Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 9);
      Calls.wrong(actors, group.name(), sum).forEach(wrong -> say("sum", wrong));
    }
  }

  private static RayActorGroup<Probe> actorsOn(String host, int count) {
    return probes().resource(host, 1).create(count);
  }

  private static RayActorGroup.Builder<Probe> probes() {
    return RayActorGroup.builder(Probe::new)
        .gpus(1)
        .heap("128m")
        .jvmOption("-XX:TieredStopAtLevel=1");
  }
}
