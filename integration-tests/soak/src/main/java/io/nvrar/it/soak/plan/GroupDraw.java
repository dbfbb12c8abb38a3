package io.nvrar.it.soak.plan;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.LinkSecurity;
import io.nvrar.MemoryProvider;
import io.nvrar.TuningTable;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.call.Shape;
import io.nvrar.standalone.Groups;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;

/** Draws one group: its shape, limits, processes, calls, and the moment of its fault. */
final class GroupDraw {
  private static final double SPLITS = 0.3;
  private static final double LINKED = 0.5;
  private static final double ON_GPUS = 0.5;

  /** More than a node has, because groups on several hosts may have more. */
  private static final int MAX_LINKED_RANKS = 12;

  private static final List<Integer> LINK_THREADS = List.of(1, 2, 4);
  private static final List<Integer> RING_BYTES = List.of(0, 8192, 16384, 65536, 1 << 20);

  /** All of them mean loopback, by which the simulated hosts reach each other. */
  private static final List<String> INTERFACES = List.of("", "lo", "127.0.0.0/8");

  // Below the ports that the kernel gives to connections.
  private static final int FIRST_PORT = 20_000;
  private static final int LAST_PORT = 29_999;

  private static final List<Algorithm> ALGORITHMS =
      List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT, Algorithm.HIERARCHICAL);

  // Long enough that a round without a fault does not time out on a machine with far more ranks
  // than cores.
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final Duration JOIN_TIMEOUT = Duration.ofSeconds(20);
  private static final Duration HEARTBEAT_LIMIT = Duration.ofSeconds(8);

  private static final Duration SHORT_TIMEOUT = Duration.ofMillis(2500);
  private static final Duration SHORT_JOIN_TIMEOUT = Duration.ofSeconds(5);
  private static final Duration SHORT_HEARTBEAT_LIMIT = Duration.ofSeconds(2);

  /** How far beyond a limit a stop lasts. */
  private static final int LONG_STOP_MARGIN_MILLIS = 1500;

  private static final int SHORT_STOP_MILLIS = 1000;

  private final Dice dice;
  private final Fleet fleet;
  private final Fault.Kind kind;
  private final Fault.Kind ofRound;
  private final int worldSize;

  /** The host of each rank. */
  private final List<Integer> hosts;

  private final Backend backend;
  private final int gpusPerNode;
  private final Shape shape;

  /**
   * @param isFirst whether it is the first group of the round. Only that may be on GPUs: kernels of
   *     two processes take turns on a GPU, so two groups there would wait for each other
   * @param kind the kind of fault in this group
   * @param ofRound the kind of fault in any group of the round, which may affect shared processes
   */
  GroupDraw(Dice dice, Fleet fleet, boolean isFirst, Fault.Kind kind, Fault.Kind ofRound) {
    this.dice = dice;
    this.fleet = fleet;
    this.kind = kind;
    this.ofRound = ofRound;
    if (kind.needsLinks() || (fleet.hosts() > 1 && dice.chance(LINKED))) {
      boolean onGpus = isFirst && fleet.gpus() > 0 && dice.chance(ON_GPUS);
      backend = onGpus ? Backend.CUDA : Backend.CPU;
      worldSize = dice.between(2, onGpus ? fleet.gpus() : MAX_LINKED_RANKS);
      hosts = onGpus ? drawHostsWithGpus() : drawHosts();
      gpusPerNode = 0; // each host is a node
      shape = Shape.ofHosts(hosts);
    } else {
      backend = Backend.CPU;
      worldSize = dice.between(kind.leastWorldSize, Groups.MAX_NODE_SIZE);
      hosts = Collections.nCopies(worldSize, 0);
      gpusPerNode = dice.chance(0.5) ? 0 : dice.between(1, worldSize);
      shape = Shape.divided(worldSize, gpusPerNode);
    }
  }

  /** Several hosts in any order, each with any number of ranks, so mostly uneven. */
  private List<Integer> drawHosts() {
    int[] order = dice.permutation(fleet.hosts());
    int least = (worldSize + Groups.MAX_NODE_SIZE - 1) / Groups.MAX_NODE_SIZE;
    int nodes = dice.between(Math.max(2, least), Math.min(fleet.hosts(), worldSize));
    List<Integer> drawn = new ArrayList<>();
    for (int node = 0; node < nodes; node++) {
      int left = worldSize - drawn.size();
      int after = nodes - 1 - node;
      int ranks =
          dice.between(
              Math.max(1, left - Groups.MAX_NODE_SIZE * after),
              Math.min(Groups.MAX_NODE_SIZE, left - after));
      drawn.addAll(Collections.nCopies(after == 0 ? left : ranks, order[node]));
    }
    return List.copyOf(drawn);
  }

  /** As many hosts as ranks, in any order. */
  private List<Integer> drawHostsWithGpus() {
    return Arrays.stream(dice.permutation(fleet.gpus())).limit(worldSize).boxed().toList();
  }

  GroupPlan draw(int round, int index) {
    List<CallSpec> calls = drawCalls();
    int victim = dice.between(0, worldSize - 1);
    boolean splits = dice.chance(SPLITS);
    Fault fault = drawFault(victim, calls, splits);
    SplitPlan split = splits ? drawSplit(fault, calls.size()) : null;
    return new GroupPlan(
        "soak-" + round + "-" + index,
        shape,
        drawConfig(fault),
        place(victim),
        hosts,
        List.copyOf(calls),
        split,
        fault);
  }

  private List<CallSpec> drawCalls() {
    // More calls if the fault has to come while they run.
    int count = kind.comesAnytime() ? dice.between(15, 50) : dice.between(2, 20);
    List<CallSpec> calls = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      calls.add(CallSpec.draw(dice, shape, backend));
    }
    return calls;
  }

  private SplitPlan drawSplit(Fault fault, int calls) {
    int step = dice.between(0, calls - 1);
    boolean betweenTwoOfTheFault =
        (kind == Fault.Kind.SWAPPED_CALLS || kind == Fault.Kind.MISSING_CALL)
            && step == fault.step() + 1;
    return SplitPlan.draw(dice, betweenTwoOfTheFault ? fault.step() : step, worldSize);
  }

  private Fault drawFault(int rank, List<CallSpec> calls, boolean splits) {
    Phase phase = kind.comesAnytime() ? drawPhase(splits) : Phase.CALL;
    int step = phase == Phase.CALL ? dice.between(0, calls.size() - 1) : 0;
    int delayMicros =
        dice.magnitude(phase == Phase.CREATE || phase == Phase.SPLIT ? 150_000 : 5_000) - 1;
    int variant = dice.between(0, 9);
    int pauseMillis = 0;
    switch (kind) {
      case DELAY -> pauseMillis = dice.magnitude(400);
      case BAD_ARGUMENT, DIFFERENT_CALL, EARLY_CLOSE, CLOSE_IN_CALL ->
          calls.set(step, calls.get(step).joiningAll());
      case SWAPPED_CALLS, MISSING_CALL -> step = makeNeighboursDiffer(step, calls);
      case SHORT_STOP -> pauseMillis = dice.magnitude(SHORT_STOP_MILLIS);
      case LONG_STOP -> {
        variant = phase == Phase.CALL ? variant % 2 : Fault.BEYOND_HEARTBEAT;
        Duration limit = variant == Fault.BEYOND_HEARTBEAT ? SHORT_HEARTBEAT_LIMIT : SHORT_TIMEOUT;
        pauseMillis = (int) limit.toMillis() + LONG_STOP_MARGIN_MILLIS;
      }
      default -> {}
    }
    int peer = kind.needsLinks() ? drawPeer(rank) : -1;
    return new Fault(kind, rank, phase, step, delayMicros, variant, pauseMillis, peer);
  }

  private Phase drawPhase(boolean splits) {
    int when = dice.between(1, 100);
    // A link can be cut only when it is there.
    boolean isBefore = when <= 25 && !kind.needsLinks();
    Phase phase = isBefore ? Phase.CREATE : when <= 85 ? Phase.CALL : Phase.CLOSE;
    return splits && dice.chance(0.5) ? Phase.SPLIT : phase;
  }

  /** A rank on another host. */
  private int drawPeer(int rank) {
    return dice.pick(
        IntStream.range(0, worldSize)
            .filter(r -> !hosts.get(r).equals(hosts.get(rank)))
            .boxed()
            .toList());
  }

  /**
   * Makes calls {@code step} and the next distinguishable by the ranks, and both of them sending:
   * otherwise swapping them is not a fault.
   */
  private static int makeNeighboursDiffer(int wanted, List<CallSpec> calls) {
    int step = Math.min(wanted, calls.size() - 2);
    CallSpec first = calls.get(step).joiningAll();
    CallSpec second = calls.get(step + 1).joiningAll();
    calls.set(step, first);
    calls.set(
        step + 1, first.looksLike(second) ? second.differing(0, Groups.MAX_NODE_SIZE) : second);
    return step;
  }

  private GroupConfig drawConfig(Fault fault) {
    Duration timeout = TIMEOUT;
    Duration joinTimeout = JOIN_TIMEOUT;
    Duration heartbeatLimit = HEARTBEAT_LIMIT;
    if (kind == Fault.Kind.LONG_STOP && fault.variant() == Fault.BEYOND_CALL_TIMEOUT) {
      timeout = SHORT_TIMEOUT;
    } else if (kind == Fault.Kind.LONG_STOP) {
      heartbeatLimit = SHORT_HEARTBEAT_LIMIT;
    }
    if (ofRound == Fault.Kind.KILL || kind == Fault.Kind.LONG_STOP) {
      joinTimeout = SHORT_JOIN_TIMEOUT;
    }
    GroupConfig.Builder config = GroupConfig.builder();
    if (hosts.stream().distinct().count() > 1) {
      drawLinks(config);
    }
    return config
        .backend(backend)
        .timeout(timeout)
        .joinTimeout(joinTimeout)
        .heartbeatLimit(heartbeatLimit)
        .ringBytes(drawRingBytes(timeout))
        .gpusPerNode(gpusPerNode)
        .tuning(drawTuning())
        .build();
  }

  private void drawLinks(GroupConfig.Builder config) {
    config.links(
        links ->
            links
                .security(dice.pick(List.of(LinkSecurity.values())))
                .networkInterface(dice.pick(INTERFACES)));
    if (dice.chance(0.5)) {
      config.links(links -> links.ports(FIRST_PORT, LAST_PORT));
    }
    if (backend == Backend.CUDA) {
      // An NVSHMEM id that no group has used keeps a thread and a socket, which are no leak.
      config
          .links(links -> links.threads(dice.pick(LINK_THREADS)))
          .cuda(cuda -> cuda.memory(MemoryProvider.IPC));
    }
  }

  private int drawRingBytes(Duration timeout) {
    int bytes = dice.pick(RING_BYTES);
    if (timeout.equals(SHORT_TIMEOUT)) {
      // With a small ring, a large call needs a thousand context switches between processes.
      return 0;
    }
    return bytes == 0 || shape.isOneNode()
        ? bytes
        : Math.max(bytes, (int) Rendezvous.minRingBytes(worldSize));
  }

  private TuningTable drawTuning() {
    List<TuningTable.Rule> rules = new ArrayList<>();
    for (int i = dice.between(-2, 3); i > 0; i--) {
      rules.add(
          new TuningTable.Rule(
              dice.chance(0.5) ? null : dice.pick(List.of(DataType.values())),
              dice.chance(0.7) ? 0 : worldSize,
              dice.chance(0.7) ? 0 : dice.between(1, worldSize),
              dice.magnitude(1 << 20),
              dice.pick(ALGORITHMS)));
    }
    return TuningTable.of(rules);
  }

  /** A process for each rank; sometimes a process holds several. */
  private List<Integer> place(int victim) {
    List<Integer> placed = new ArrayList<>();
    while (placed.size() < worldSize) {
      int first = placed.size();
      int host = hosts.get(first);
      placed.addAll(placeOn(host, Collections.frequency(hosts, host), victim - first));
    }
    return List.copyOf(placed);
  }

  /**
   * @param victim the fault's rank, counted from the first of the host's ranks
   */
  private List<Integer> placeOn(int host, int ranks, int victim) {
    List<Integer> workers = fleet.workersOf(host);
    List<Integer> order =
        new ArrayList<>(
            Arrays.stream(dice.permutation(workers.size())).mapToObj(workers::get).toList());
    int processes = Math.min(ranks, workers.size());
    if (dice.chance(0.3)) {
      processes = dice.between(1, processes);
    }
    if (kind == Fault.Kind.KILL && victim >= 0 && victim < ranks) {
      makeExpendable(order, victim % processes);
    }
    List<Integer> placed = new ArrayList<>();
    for (int r = 0; r < ranks; r++) {
      placed.add(order.get(r % processes));
    }
    return placed;
  }

  private void makeExpendable(List<Integer> order, int at) {
    for (int i = 0; !fleet.isExpendable(order.get(at)); i++) {
      if (fleet.isExpendable(order.get(i))) {
        Collections.swap(order, i, at);
      }
    }
  }
}
