package io.nvrar.it.containers;

import static io.nvrar.it.containers.Facts.say;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * The driver in the head of a group of four actors on two hosts, to which a test does something
 * meanwhile: says what it sees, and makes another group of those that are left and of fresh actors.
 */
final class HostFaultsProgram {

  /** The group's life until it fails, and what comes after it. */
  static final String WATCH = "watch";

  /** Sums for a while, in which the group must not fail. */
  static final String ENDURE = "endure";

  /** A failure while the group is made. */
  static final String JOIN = "join";

  /** A group that cannot be made, and the same again once {@link #GO} is there. */
  static final String AGAIN = "again";

  /** A group of detached actors, until this driver is killed. */
  static final String DETACHED = "detached";

  /** What the detached actors saw, and another group of them. */
  static final String AFTERWARDS = "afterwards";

  /** Until this file is there {@link #JOIN} and {@link #AGAIN} wait before they make the group. */
  static final String GO = "/tmp/go";

  private static final String GROUP = "fault";
  private static final int LIMIT_MILLIS = 60_000;

  private final Duration heartbeatLimit = Duration.ofMillis(Long.getLong("limit", 3_000));

  /** Two actors are on each of the first two. */
  private final List<String> hosts = list("hosts");

  /** Those that are no good after the fault. */
  private final List<Integer> victims = list("victims").stream().map(Integer::valueOf).toList();

  private final boolean heals = Boolean.getBoolean("heals");
  private int tasksAtOnce = 1;
  private final List<RayActorGroup<Witness>> created = new ArrayList<>();

  private HostFaultsProgram() {}

  public static void main(String[] args) throws Exception {
    for (String setting : Arrays.asList(args).subList(1, args.length)) {
      int equals = setting.indexOf('=');
      System.setProperty(setting.substring(0, equals), setting.substring(equals + 1));
    }
    Ray.init();
    HostFaultsProgram program = new HostFaultsProgram();
    try {
      switch (args[0]) {
        case WATCH -> program.watch();
        case ENDURE -> {
          program.tasksAtOnce = 2; // enough() beside the sums
          program.endure();
        }
        case JOIN -> program.join();
        case AGAIN -> program.again();
        case DETACHED -> program.detached();
        case AFTERWARDS -> program.afterwards();
        default -> throw new IllegalArgumentException(args[0]);
      }
    } finally {
      program.created.forEach(RayActorGroup::close);
      Ray.shutdown();
    }
  }

  private static List<String> list(String property) {
    return Arrays.stream(System.getProperty(property, "").split(",", 0))
        .filter(part -> !part.isEmpty())
        .toList();
  }

  private void watch() throws InterruptedException {
    List<ActorHandle<Witness>> all = four();
    RayCollectiveGroup group = RayCollectives.createGroup(GROUP, all, config());
    List<ObjectRef<String>> calls = startToWatch(all);
    say("running", "");
    awaitFailure(group);
    for (int rank : survivors()) {
      say("rank", Ray.get(calls.get(rank), LIMIT_MILLIS));
    }
    group.close();
    rebuild(all);
    if (heals) {
      for (int rank : victims) {
        say("rank", Ray.get(calls.get(rank), LIMIT_MILLIS));
      }
      sum("healed", all);
    }
  }

  private static List<ObjectRef<String>> startToWatch(List<ActorHandle<Witness>> all)
      throws InterruptedException {
    Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 1_024);
    Calls.all(all, actor -> actor.task(Witness::check, GROUP, sum).remote());
    List<ObjectRef<String>> calls =
        Calls.start(all, actor -> actor.task(Witness::watch, GROUP).remote());
    Thread.sleep(300);
    return calls;
  }

  private static void awaitFailure(RayCollectiveGroup group) throws InterruptedException {
    long deadline = System.nanoTime() + LIMIT_MILLIS * 1_000_000L;
    while (group.failure() == null && System.nanoTime() < deadline) {
      Thread.sleep(1);
    }
    say("driver", Sight.of(-1, Objects.requireNonNull(group.failure())));
  }

  private void endure() throws InterruptedException {
    List<ActorHandle<Witness>> all = four();
    try (RayCollectiveGroup group = RayCollectives.createGroup(GROUP, all, config())) {
      List<ObjectRef<String>> calls =
          Calls.start(all, actor -> actor.task(Witness::sumUntilEnough, GROUP).remote());
      say("running", "");
      Thread.sleep(Long.getLong("millis", 5_000));
      Calls.all(all, actor -> actor.task(Witness::enough).remote());
      Ray.get(calls, LIMIT_MILLIS).forEach(wrong -> say("wrong", wrong));
      say("failure", String.valueOf(group.failure()));
    }
    sum("healed", all);
  }

  private void join() throws InterruptedException {
    List<ActorHandle<Witness>> all = four();
    say("running", "");
    awaitGo();
    refused(all);
    rebuild(all);
    if (heals) {
      List<ActorHandle<Witness>> left = survivors().stream().map(all::get).toList();
      Calls.all(left, actor -> actor.task(Witness::isGroupInitialized, GROUP).remote())
          .forEach(is -> say("initialized", is));
      sum("healed", left);
    }
  }

  private void again() throws InterruptedException {
    List<ActorHandle<Witness>> all = four();
    say("running", System.currentTimeMillis());
    refused(all);
    Calls.all(all, actor -> actor.task(Witness::isGroupInitialized, GROUP).remote())
        .forEach(is -> say("initialized", is));
    awaitGo();
    sum("healed", all);
  }

  private static void awaitGo() throws InterruptedException {
    while (!Files.exists(Path.of(GO))) {
      Thread.sleep(10);
    }
  }

  private void refused(List<ActorHandle<Witness>> all) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(GROUP, all, config())) {
      say("created", group.name());
    } catch (CollectiveException | BackendUnavailableException e) {
      say("driver", Sight.of(-1, e));
      for (Throwable other : e.getSuppressed()) {
        say("other", Sight.of(-1, other));
      }
    }
  }

  private void detached() throws InterruptedException {
    List<ActorHandle<Witness>> all = new ArrayList<>();
    for (String host : hosts) {
      RayActorGroup.Builder<Witness> witnesses =
          configured(RayActorGroup.builder(Witness::new))
              .resource(host, 1)
              .name("detached-" + host)
              .detached();
      all.addAll(witnesses.create(2).handles());
    }
    RayCollectiveGroup group = RayCollectives.createGroup(GROUP, all, config());
    startToWatch(all);
    say("pid", ProcessHandle.current().pid());
    say("running", group.name());
    Thread.sleep(LIMIT_MILLIS);
  }

  private void afterwards() {
    List<RayActorGroup<Witness>> found =
        hosts.stream()
            .map(host -> RayActorGroup.find(Witness.class, "detached-" + host, 2))
            .toList();
    List<ActorHandle<Witness>> all =
        found.stream().flatMap(actors -> actors.handles().stream()).toList();
    Calls.all(all, actor -> actor.task(Witness::sight).remote()).forEach(seen -> say("rank", seen));
    sum("sum", all);
    say("rebuilt", System.currentTimeMillis());
    found.forEach(RayActorGroup::kill);
  }

  private List<ActorHandle<Witness>> four() {
    List<ActorHandle<Witness>> all = new ArrayList<>(fresh(hosts.get(0), 2));
    all.addAll(fresh(hosts.get(1), 2));
    Calls.all(all, actor -> actor.task(Witness::pid).remote()).forEach(pid -> say("pid", pid));
    return all;
  }

  private List<ActorHandle<Witness>> fresh(String host, int count) {
    RayActorGroup<Witness> actors =
        configured(
                RayActorGroup.builderByRank(
                    rank -> Ray.actor(Witness::new).setMaxConcurrency(tasksAtOnce)))
            .resource(host, 1)
            .create(count);
    created.add(actors);
    return actors.handles();
  }

  private List<Integer> survivors() {
    return IntStream.range(0, 4).boxed().filter(rank -> !victims.contains(rank)).toList();
  }

  /** A group of those that are left, and of as many fresh actors on the third host as are not. */
  private void rebuild(List<ActorHandle<Witness>> all) {
    List<ActorHandle<Witness>> members =
        new ArrayList<>(survivors().stream().map(all::get).toList());
    long begin = System.nanoTime();
    List<ActorHandle<Witness>> fresh = fresh(hosts.get(2), victims.size());
    Calls.all(fresh, actor -> actor.task(Witness::pid).remote());
    say("fresh", (System.nanoTime() - begin) / 1_000_000);
    members.addAll(fresh);
    sum("sum", members);
    say("rebuilt", System.currentTimeMillis());
  }

  private void sum(String fact, List<ActorHandle<Witness>> members) {
    try (RayCollectiveGroup group = RayCollectives.createGroup("again", members, config())) {
      Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 10_001);
      Calls.all(members, actor -> actor.task(Witness::check, group.name(), sum).remote())
          .forEach(wrong -> say(fact, wrong));
    }
  }

  private GroupConfig config() {
    return GroupConfig.builder().heartbeatLimit(heartbeatLimit).build();
  }

  private static RayActorGroup.Builder<Witness> configured(RayActorGroup.Builder<Witness> actors) {
    actors.gpus(1).heap("128m").jvmOption("-XX:TieredStopAtLevel=1");
    list("jvm").forEach(actors::jvmOption);
    return actors;
  }
}
