package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveGroup;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.RankTimes;
import io.nvrar.examples.llama.bench.StepBench;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.engine.cuda.CudaEngine;
import io.nvrar.examples.llama.engine.cuda.ReadBandwidth;
import io.nvrar.examples.llama.engine.cuda.StepTrace;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import io.nvrar.tools.CudaReport;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One rank of the model, in a process of its own.
 *
 * <p>A Ray call costs as much as many collectives, so there is no Ray call per token: the decode
 * loop runs on a thread of the actor, synchronized with the other ranks only by the collectives,
 * and the driver polls rank 0 for the tokens generated since the last poll. A poll waits in the
 * actor until there is a token, and returns all that there are, so text streams as fast as it is
 * generated.
 *
 * <p>All methods return a value, because Ray drops the exceptions of void methods.
 */
public final class LlamaActor implements CollectiveActor {
  private static final long POLL_MILLIS = 100;
  private static final long WAIT_MILLIS = 2000;

  private final BackgroundWork work = new BackgroundWork();
  private final AtomicLong loadedBytes = new AtomicLong();
  private final DecodeTimes times = new DecodeTimes();
  private @Nullable CollectiveGroup group;
  // Written by the loading thread; read only after that thread has ended.
  private volatile @Nullable LlamaEngine engine;
  private GeneratedTokens tokens = new GeneratedTokens(false);

  /** Why this actor cannot compute on a GPU; empty if it can. */
  public String gpuProblem() {
    if (!CudaEngine.hasKernels()) {
      return ActorPlaces.NO_KERNELS;
    }
    BackendUnavailableException cause = Devices.unavailabilityCause(Backend.CUDA);
    return cause == null ? "" : String.valueOf(cause.getMessage());
  }

  /** Whether this actor's GPU is new enough for programmatic launch, as all of its node are. */
  public boolean takesProgrammaticLaunch() {
    return CudaEngine.takesProgrammaticLaunch();
  }

  /** Why a member of a group on GPUs cannot decode a model there; empty if it can. */
  public String modelProblem(LoadRequest request, String groupName) {
    try (TensorSource tensors = request.model().open(bytes -> {})) {
      return CudaEngine.problem(
          tensors,
          request.model().config(),
          RayCollectives.group(groupName),
          request.prefill(),
          request.capacities());
    }
  }

  /** The memory of this actor's host. */
  public HostMemory hostMemory() {
    return HostMemory.here();
  }

  /** Starts to load this rank's weights. */
  public boolean load(LoadRequest request, String groupName) {
    if (engine != null) {
      throw new IllegalStateException("the weights are loaded already");
    }
    CollectiveGroup member = RayCollectives.group(groupName);
    group = member;
    loadedBytes.set(0);
    work.start(
        "load",
        () ->
            orAbort(
                member,
                () -> {
                  LlamaConfig config = request.model().config();
                  try (TensorSource tensors = request.model().open(loadedBytes::addAndGet)) {
                    LlamaEngine loaded = load(tensors, config, member, request);
                    engine = loaded;
                    return loaded;
                  }
                }));
    return true;
  }

  private static LlamaEngine load(
      TensorSource tensors, LlamaConfig config, CollectiveGroup member, LoadRequest request) {
    if (member.backend() == Backend.CUDA) {
      return CudaEngine.load(tensors, config, member, request.prefill(), request.capacities());
    }
    Shard shard = Shard.of(config, member.rank(), member.worldSize());
    return new CpuEngine(LlamaWeights.read(tensors, config, shard), member);
  }

  /**
   * The number of bytes read so far; when all have been read, the negative of that number minus
   * one.
   */
  public long loaded() throws InterruptedException {
    boolean done = work.isDone(POLL_MILLIS);
    return done ? -1 - loadedBytes.get() : loadedBytes.get();
  }

  /** Starts to decode. All ranks must be given the same request. */
  public boolean start(DecodeRequest request) {
    LlamaEngine loaded = engine;
    CollectiveGroup member = group;
    if (loaded == null || member == null) {
      throw new IllegalStateException("the weights are not loaded");
    }
    boolean first = member.rank() == 0;
    GeneratedTokens sink = new GeneratedTokens(first && request.keepLogits());
    tokens = sink;
    work.start("decode", () -> decode(loaded, member, request, first, sink));
    return true;
  }

  /**
   * The tokens generated since the last call, see {@link GeneratedTokens#take}; on ranks other than
   * 0 only whether decoding has ended. Waits a while for that. Throws the exception that ended the
   * decoding.
   */
  public int[] poll() throws InterruptedException {
    int[] taken = tokens.take(WAIT_MILLIS);
    if (taken[0] == 1 && !work.isDone(WAIT_MILLIS)) {
      taken[0] = 0;
    }
    return taken;
  }

  /** On rank 0: the next row of logits as little-endian float32. */
  public byte[] takeLogits() {
    byte[] row = tokens.takeLogits();
    if (row == null) {
      throw new IllegalStateException("there are no more rows of logits");
    }
    return row;
  }

  /** Whether the fast kernels are used. */
  public boolean isFast() {
    return onGpu((loaded, member) -> loaded.isFast());
  }

  /** See {@link CudaEngine#prefill}; empty if the model is not on a GPU. */
  public String prefill() {
    return engine instanceof CudaEngine onGpu ? onGpu.prefill() : "";
  }

  /** The model of this actor's GPU. */
  public String gpuModel(String groupName) {
    return CudaReport.model(RayCollectives.group(groupName).device().ordinal());
  }

  /** How many bytes of its memory this actor's GPU reads in a second. */
  public double readBandwidth(String groupName) {
    CollectiveGroup member = RayCollectives.group(groupName);
    return ReadBandwidth.measure(member.device(), member.rank());
  }

  /** Measures decode steps on a GPU. All ranks must be given the same. Returns when it is done. */
  public RankTimes measure(BenchCell cell) {
    return onGpu((loaded, member) -> StepBench.measure(loaded, member, cell));
  }

  /**
   * Measures decode steps with NCCL's all-reduces on a GPU. All ranks must be given the same.
   * Returns when it is done.
   *
   * @param library of NCCL: a name that the loader finds, or a path
   */
  public RankTimes measureWithNccl(BenchCell cell, String library) {
    return onGpu((loaded, member) -> StepBench.measureWithNccl(loaded, member, cell, library));
  }

  /** When the kernels of a step end. All ranks must be given the same. */
  public StepTrace trace(BenchCell cell) {
    return onGpu((loaded, member) -> StepBench.trace(loaded, member, cell));
  }

  /** See {@link StepBench#firstTokenSeconds}. All ranks must be given the same. */
  public double firstTokenSeconds(int length, boolean bySlices) {
    return onGpu((loaded, member) -> StepBench.firstTokenSeconds(loaded, length, bySlices));
  }

  private <T> T onGpu(BiFunction<CudaEngine, CollectiveGroup, T> measurement) {
    CollectiveGroup member = group;
    if (!(engine instanceof CudaEngine loaded) || member == null) {
      throw new IllegalStateException("the weights are not loaded to a GPU");
    }
    return orAbort(member, () -> measurement.apply(loaded, member));
  }

  /** See {@link DecodeTimes#toArray}. */
  public double[] times() {
    return times.toArray();
  }

  private void decode(
      LlamaEngine loaded,
      CollectiveGroup member,
      DecodeRequest request,
      boolean keepTokens,
      GeneratedTokens sink) {
    times.begin();
    try {
      orAbort(
          member,
          () -> {
            DecodeLoop.run(
                loaded,
                request,
                (sequence, token, logits) -> {
                  times.token();
                  if (keepTokens) {
                    sink.accept(sequence, token, logits);
                  }
                });
            return loaded;
          });
      times.end(loaded.collectiveNanos());
    } finally {
      sink.end();
    }
  }

  /**
   * Does something, and ends the group if it fails: the other ranks would wait for this rank until
   * their timeout, and its close for theirs.
   */
  static <T> T orAbort(CollectiveGroup member, Supplier<T> work) {
    try {
      return work.get();
    } catch (RuntimeException | Error e) {
      member.abort(String.format(Locale.ROOT, "rank %d cannot go on: %s", member.rank(), e));
      throw e;
    }
  }
}
