package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.TopK;
import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.LlamaEngine.TokenListener;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.kernels.Likeliest;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.RowSampling;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;
import io.nvrar.examples.llama.engine.cuda.kernels.TokenRing;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Steps that choose the tokens of the next one themselves, each a replay of a captured graph. The
 * host reads the tokens from a ring and stops no step.
 */
final class SelfFedSteps implements Resources.Resource {
  private static final float MIN_TEMPERATURE = 1e-30f;

  /** No token. */
  private static final int NEVER = -3;

  private static final double NANOS_OF_MILLI = 1e6;

  private final Resources resources = new Resources();
  private final Gpu gpu;
  private final CollectiveGroup group;
  private final DeviceStream stream;
  private final StepPath path;
  private final StepEnds ends;
  private final StepState state;
  private final int rows;
  private final boolean captures;
  private final TokenRing ring;
  private final DeviceBuffer remaining;
  private final DeviceBuffer temperatures;
  private final DeviceBuffer seed;
  private final DeviceBuffer endTokens;
  private final DeviceBuffer step;
  private final DeviceBuffer best;
  private final DeviceBuffer gathered;
  private final RowSampling sampling;
  private final StepEnds.Next next;
  private final RankShape shape;
  private final Set<Integer> contexts;
  private final Map<StepKind, DeviceGraph> graphs = new HashMap<>();
  private final Map<Likeliest.Kind, Likeliest> likeliest = new HashMap<>();

  /**
   * Which steps are equal but for what is in device memory.
   *
   * @param context of {@link StepPath#contextFor}
   * @param among what is drawn among; null for all tokens
   */
  private record StepKind(int context, Likeliest.@Nullable Kind among) {}

  /**
   * Makes room, and captures the steps.
   *
   * @param state of at least {@code rows} rows
   * @param rows sequences, each of which has the row of its number
   * @param endTokenCount the most end tokens
   * @param positions more than the position of any row will be
   * @param captures whether steps are replays of graphs, and not enqueued one by one
   */
  SelfFedSteps(
      RankModel model,
      StepPath path,
      StepState state,
      int rows,
      int endTokenCount,
      int positions,
      boolean captures) {
    gpu = model.gpu();
    group = model.group();
    stream = model.stream();
    this.path = path;
    ends = model.ends();
    shape = model.shape();
    this.state = state;
    this.rows = rows;
    this.captures = captures;
    Device device = group.device();
    try {
      ring = resources.own(new TokenRing(gpu, group, stream, TokenFollower.RING_STEPS, rows));
      remaining = resources.allocate(device, DataType.INT32, rows);
      temperatures = resources.allocate(device, DataType.FLOAT32, rows);
      seed = resources.allocate(device, DataType.INT64, 1);
      endTokens = resources.allocate(device, DataType.INT32, endTokenCount);
      step = resources.allocate(device, DataType.INT32, 1);
      best = resources.zeroed(gpu, stream, DataType.INT64, rows);
      gathered = resources.zeroed(gpu, stream, DataType.INT64, (long) rows * group.worldSize());
      sampling = new RowSampling(temperatures, seed, state.sequences(), state.positions());
      next = new StepEnds.Next(state, remaining, endTokens, step, ring.words(), rows, ring.steps());
      contexts = contextsOf(positions);
      if (captures) {
        capture(null);
      }
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /**
   * Generates until all rows have ended, or wait for a token that the GPU could not choose.
   *
   * @param lengths how many tokens each sequence has had; raised by those that this gives it
   * @return false if more of the likeliest tokens are wanted than a step finds; then nothing was
   *     done
   * @throws ModelException if the logits are not numbers
   */
  boolean run(Continuation continuation, int[] lengths, TokenListener listener) {
    if (continuation.isOfLikeliest() && continuation.topK() > TopK.MAX_K) {
      return false;
    }
    TokenFollower follower = new TokenFollower(continuation, lengths);
    if (!follower.isLive()) {
      return true;
    }
    Likeliest.Kind among = amongFor(continuation);
    write(continuation, lengths);
    try {
      follower.follow(new Replays(among), listener);
    } catch (RuntimeException | Error e) {
      // Steps that still run would write into the ring of the next decode.
      try {
        stream.synchronize();
      } catch (RuntimeException alsoFailed) {
        e.addSuppressed(alsoFailed);
      }
      throw e;
    }
    // Steps without a live row may still run.
    stream.synchronize();
    return true;
  }

  /** What these steps draw among, null for all tokens; makes all that the first ones need. */
  private Likeliest.@Nullable Kind amongFor(Continuation continuation) {
    if (!continuation.isOfLikeliest()) {
      return null;
    }
    Likeliest.Kind kind = Likeliest.Kind.of(continuation);
    Likeliest among = likeliest.get(kind);
    if (among == null) {
      among = resources.own(new Likeliest(group, shape, rows, kind));
      likeliest.put(kind, among);
      try {
        if (captures) {
          capture(kind);
        }
      } catch (RuntimeException | Error e) {
        likeliest.remove(kind);
        throw e;
      }
    }
    among.write(continuation, stream);
    return kind;
  }

  /** The steps of this rank. */
  private final class Replays implements TokenFollower.Steps {
    private final Likeliest.@Nullable Kind among;

    private Replays(Likeliest.@Nullable Kind among) {
      this.among = among;
    }

    @Override
    public void enqueue(int positions, int steps) {
      SelfFedSteps.this.enqueue(new StepKind(path.contextFor(positions), among), steps);
    }

    @Override
    public int await(int at, int row) {
      return ring.await(at, row);
    }

    @Override
    public void throwIfFailed() {
      group.throwIfFailed();
    }
  }

  /** See {@link CudaEngine#time}; leaves the sequences as they are. */
  TimedSteps time(Continuation begin, int[] lengths, int steps, int blocks) {
    StepKind kind = new StepKind(contextAfter(lengths, steps), amongFor(begin));
    write(begin, lengths);
    try (Resources events = new Resources()) {
      List<BlockEvents> all = new ArrayList<>();
      for (int block = 0; block < blocks; block++) {
        all.add(BlockEvents.of(group.device(), events));
      }
      for (BlockEvents block : all) {
        writeRows(begin, lengths);
        enqueue(kind, 1);
        block.begin().record(stream);
        enqueue(kind, steps);
        block.end().record(stream);
      }
      stream.synchronize();
      requireAllChosen(begin.isOfLikeliest());
      int[] tokens = new int[rows];
      state.tokens().copyTo(tokens, stream);
      double[] millis =
          all.stream().mapToDouble(block -> block.nanos() / NANOS_OF_MILLI / steps).toArray();
      return new TimedSteps(millis, tokens);
    }
  }

  /** See {@link CudaEngine#trace}; leaves the sequences as they are. */
  StepTrace trace(int[] firstTokens, int[] lengths, int steps) {
    int[] wanted = new int[rows];
    Arrays.fill(wanted, 1 + steps);
    Continuation begin = Continuation.greedy(firstTokens, wanted, List.of());
    int context = contextAfter(lengths, steps);
    try (Resources room = new Resources()) {
      StepStamps stamps =
          room.own(new StepStamps(gpu, stream, path.isProgrammatic(), steps, path.layers()));
      DeviceGraph graph = group.device().capture(stream, () -> enqueueStamped(context, stamps));
      room.own(graph::close);
      write(begin, lengths);
      for (int i = 0; i < 1 + steps; i++) {
        graph.launch(stream);
      }
      stream.synchronize();
      requireAllChosen(false);
      return stamps.trace(stream);
    }
  }

  private void enqueueStamped(int context, StepStamps stamps) {
    path.stamp(stamps);
    try {
      path.ended("begin", -1);
      enqueueStep(new StepKind(context, null));
    } finally {
      path.stamp(null);
    }
  }

  private int contextAfter(int[] lengths, int steps) {
    return path.contextFor(Arrays.stream(lengths).max().orElse(0) + 1 + steps);
  }

  // A row becomes idle before its last step if its logits are not numbers, or if its token could
  // not be chosen.
  private void requireAllChosen(boolean ofLikeliest) {
    int[] left = new int[rows];
    remaining.copyTo(left, stream);
    if (Arrays.stream(left).anyMatch(count -> count != 0)) {
      throw ofLikeliest
          ? new ModelException(
              "The likeliest tokens that steps look at do not have top-p together, or the logits"
                  + " are not finite numbers: give a top-k.")
          : TokenFollower.notFinite();
    }
  }

  private record BlockEvents(DeviceEvent begin, DeviceEvent end) {
    static BlockEvents of(Device device, Resources resources) {
      return new BlockEvents(event(device, resources), event(device, resources));
    }

    private static DeviceEvent event(Device device, Resources resources) {
      DeviceEvent event = device.createEvent();
      resources.own(event::close);
      return event;
    }

    double nanos() {
      return end.elapsedSince(begin).toNanos();
    }
  }

  @Override
  public void close() {
    resources.close();
  }

  private Set<Integer> contextsOf(int positions) {
    Set<Integer> all = new TreeSet<>();
    for (long some = 1; some < positions; some *= 2) {
      all.add(path.contextFor((int) some));
    }
    all.add(path.contextFor(positions));
    return all;
  }

  /** Captures the steps of all contexts. No step may run meanwhile that waits for this rank. */
  private void capture(Likeliest.@Nullable Kind among) {
    for (int context : contexts) {
      StepKind kind = new StepKind(context, among);
      DeviceGraph graph = group.device().capture(stream, () -> enqueueStep(kind));
      resources.own(graph::close);
      graphs.put(kind, graph);
    }
  }

  private void enqueue(StepKind kind, int steps) {
    DeviceGraph graph = graphs.get(kind);
    if (captures && graph == null) {
      throw new IllegalStateException("no step was captured for a context of " + kind.context());
    }
    for (int i = 0; i < steps; i++) {
      if (graph == null) {
        enqueueStep(kind);
      } else {
        graph.launch(stream);
      }
    }
  }

  private void enqueueStep(StepKind kind) {
    path.enqueueLayers(rows, true, kind.context());
    Likeliest among = kind.among() == null ? null : likeliest.get(kind.among());
    if (among != null) {
      Likeliest.Found found = among.find(stream, ends, shape, path.enqueueHead(rows), sampling);
      ends.draw(stream, next, found, sampling);
      return;
    }
    path.enqueueBest(rows, sampling, best);
    group.allGather(best, gathered, stream);
    path.ended("all-gather", -1);
    ends.choose(stream, next, gathered, group.worldSize());
    path.ended("choose", -1);
  }

  private void write(Continuation continuation, int[] lengths) {
    writeRows(continuation, lengths);
    float[] divisors = new float[rows];
    Arrays.fill(divisors, divisor(continuation.temperature()));
    temperatures.copyFrom(divisors, stream);
    seed.copyFrom(new long[] {continuation.seed()}, stream);
    int[] end = new int[(int) endTokens.count()];
    Arrays.fill(end, NEVER);
    for (int i = 0; i < continuation.endTokens().size(); i++) {
      end[i] = continuation.endTokens().get(i);
    }
    endTokens.copyFrom(end, stream);
    gpu.zero(stream, step);
    ring.clear();
  }

  /** Where the rows stand; what the next step is given. */
  private void writeRows(Continuation continuation, int[] lengths) {
    int[] wanted = new int[rows];
    for (int row = 0; row < state.rows(); row++) {
      boolean lives = row < rows && continuation.remaining(row) > 0;
      state.set(
          row,
          lives ? continuation.lastToken(row) : 0,
          lives ? lengths[row] : -1,
          row < rows ? row : 0);
      if (row < rows) {
        wanted[row] = continuation.remaining(row);
      }
    }
    state.write(stream);
    remaining.copyFrom(wanted, stream);
  }

  // Logits divided by less would not be finite; the greatest wins by far in any case.
  static float divisor(float temperature) {
    return temperature < MIN_TEMPERATURE ? 0 : temperature;
  }
}
