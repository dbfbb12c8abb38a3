package io.nvrar.tools.soak.plan;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.TuningTable;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.soak.call.CallSpec;
import io.nvrar.tools.soak.call.Dice;
import io.nvrar.tools.soak.call.Shape;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Draws one group: its shape, limits, processes, calls, and the moment of its fault. */
final class GroupDraw {
  private static final double SPLITS = 0.3;
  private static final List<Integer> RING_BYTES = List.of(0, 8192, 16384, 65536, 1 << 20);

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
  private final int workers;
  private final Fault.Kind kind;
  private final Fault.Kind ofRound;
  private final int worldSize;
  private final Shape shape;

  /**
   * @param kind the kind of fault in this group
   * @param ofRound the kind of fault in any group of the round, which may affect shared processes
   */
  GroupDraw(Dice dice, int workers, Fault.Kind kind, Fault.Kind ofRound) {
    this.dice = dice;
    this.workers = workers;
    this.kind = kind;
    this.ofRound = ofRound;
    worldSize = dice.between(kind.leastWorldSize, Groups.MAX_WORLD_SIZE);
    shape = new Shape(worldSize, dice.chance(0.5) ? 0 : dice.between(1, worldSize));
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
        List.copyOf(calls),
        split,
        fault);
  }

  private List<CallSpec> drawCalls() {
    // More calls if the controller has to inject the fault while they run.
    int count = kind.external ? dice.between(15, 50) : dice.between(2, 20);
    List<CallSpec> calls = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      calls.add(CallSpec.draw(dice, shape));
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
    Phase phase = Phase.CALL;
    if (kind.external) {
      int when = dice.between(1, 100);
      phase = when <= 25 ? Phase.CREATE : when <= 85 ? Phase.CALL : Phase.CLOSE;
      phase = splits && dice.chance(0.5) ? Phase.SPLIT : phase;
    }
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
    return new Fault(kind, rank, phase, step, delayMicros, variant, pauseMillis);
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
        step + 1, first.looksLike(second) ? second.differing(0, Groups.MAX_WORLD_SIZE) : second);
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
    return GroupConfig.builder()
        .timeout(timeout)
        .joinTimeout(joinTimeout)
        .heartbeatLimit(heartbeatLimit)
        .ringBytes(drawRingBytes(timeout))
        .gpusPerNode(shape.ranksPerNode())
        .tuning(drawTuning())
        .build();
  }

  private int drawRingBytes(Duration timeout) {
    int bytes = dice.pick(RING_BYTES);
    if (timeout.equals(SHORT_TIMEOUT)) {
      // With a small ring, a large call needs a thousand context switches between processes.
      return 0;
    }
    return bytes == 0 || shape.isOneNode()
        ? bytes
        : Math.max(bytes, Groups.MIN_RING_BYTES_OF_NODES);
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
    int[] order = dice.permutation(workers);
    int processes = Math.min(worldSize, workers);
    if (dice.chance(0.3)) {
      processes = dice.between(1, processes);
    }
    if (kind == Fault.Kind.KILL) {
      makeExpendable(order, victim % processes);
    }
    List<Integer> placed = new ArrayList<>();
    for (int r = 0; r < worldSize; r++) {
      placed.add(order[r % processes]);
    }
    return List.copyOf(placed);
  }

  private void makeExpendable(int[] order, int at) {
    for (int i = 0; order[at] < workers / 2; i++) {
      if (order[i] >= workers / 2) {
        int other = order[i];
        order[i] = order[at];
        order[at] = other;
      }
    }
  }
}
