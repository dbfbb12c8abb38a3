package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.RotaryEmbedding;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLt;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.kernels.ChunkKernels;
import io.nvrar.examples.llama.engine.cuda.kernels.LargeProducts;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.PlainKernels;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import io.nvrar.examples.llama.engine.cuda.loading.ParallelLoading;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.TensorSource;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Locale;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * A Llama on a GPU: in the weights' 16-bit type where the fast kernels take the model, else in
 * float32. Ranks divide the work as those of the CPU's engine do.
 */
public final class CudaEngine implements LlamaEngine {
  private static final int MIN_PROGRAMMATIC_CAPABILITY = 9;

  private final Resources resources = new Resources();
  private final LlamaConfig config;
  private final CollectiveGroup group;
  private final RankShape shape;
  private final Gpu gpu;
  private final DeviceStream stream;
  private final Settings settings;
  private final boolean isFast;
  private final MemoryNeed need;

  /** The kernels {@code gemm}, or {@code plain}. */
  private final KernelImage products;

  /** The kernels {@code attention}; null in the plain path. */
  private final @Nullable KernelImage attention;

  private final RankModel model;
  private final RotaryEmbedding rotary;

  /** What prompts pass through by; null if by the products of steps. */
  private final @Nullable LargeProducts largeProducts;

  private final @Nullable KernelImage chunkImage;
  private boolean onlySlices;
  private @Nullable Sequences sequences;

  /**
   * How an engine works; tests compare.
   *
   * @param fast whether the fast kernels are used where they take the model
   * @param captures whether steps that feed themselves are replays of graphs
   * @param prefill how prompts pass through
   */
  record Settings(boolean fast, boolean captures, Prefill prefill) {
    static final Settings DEFAULT = new Settings(true, true, Prefill.automatic());

    Settings with(Prefill other) {
      return new Settings(fast, captures, other);
    }
  }

  private CudaEngine(
      EnginePlan plan, TensorSource source, CollectiveGroup group, Settings settings) {
    this.config = plan.config();
    this.group = group;
    this.settings = settings;
    shape = plan.shape();
    gpu = plan.gpu();
    isFast = plan.isFast();
    need = plan.need();
    rotary = new RotaryEmbedding(config);
    DataType type = plan.type();
    try {
      KernelImage step = resources.own(KernelImage.load(gpu, "step"));
      stream = group.device().createStream();
      resources.own(stream::close);
      products = resources.own(KernelImage.load(gpu, plan.products()));
      attention = isFast ? resources.own(KernelImage.load(gpu, "attention")) : null;
      CublasLt library = plan.searchesLibrary() ? ofAll(plan.library()) : null;
      largeProducts = library == null ? null : resources.own(new LargeProducts(gpu, library, type));
      chunkImage = library == null ? null : resources.own(KernelImage.load(gpu, "prefill"));
      StepEnds ends =
          isFast
              ? new StepEnds(step, type, type, group.config().cuda().programmaticLaunch())
              : new StepEnds(step, type, DataType.FLOAT32, false);
      GpuWeights weights =
          resources.own(
              GpuWeights.load(
                  gpu,
                  plan.tensors(),
                  source,
                  isFast ? plan.matrices() : FloatFormat.F32,
                  group.rank() == 0,
                  ParallelLoading.threads(
                      Runtime.getRuntime().availableProcessors(), group.worldSize())));
      model = new RankModel(gpu, group, stream, shape, config.normEpsilon(), weights, ends);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /**
   * Why {@link #load} would refuse; empty if it would not. Leaves nothing on the GPU.
   *
   * @param prefill how prompts are to pass through
   * @param requests the capacities that {@link #begin} will be given, one after another
   */
  public static String problem(
      TensorSource source,
      LlamaConfig config,
      CollectiveGroup group,
      Prefill prefill,
      int[][] requests) {
    return plan(source, config, group, Settings.DEFAULT.with(prefill)).problem(requests);
  }

  /**
   * Loads a rank's weights to the GPU of its member of a group, which the caller closes.
   *
   * @param prefill how prompts are to pass through, the same on all ranks. By cuBLASLt only if all
   *     have it
   * @param requests the capacities that {@link #begin} will be given, one after another
   * @throws ModelException if this build has no kernels for the GPU, they do not take the model,
   *     the prefill cannot be as it must be, or its memory is too small for the weights and a
   *     request; before anything is read
   */
  public static CudaEngine load(
      TensorSource source,
      LlamaConfig config,
      CollectiveGroup group,
      Prefill prefill,
      int[][] requests) {
    return load(source, config, group, requests, Settings.DEFAULT.with(prefill));
  }

  static CudaEngine load(
      TensorSource source,
      LlamaConfig config,
      CollectiveGroup group,
      int[][] requests,
      Settings settings) {
    EnginePlan plan = plan(source, config, group, settings);
    String problem = plan.problem(requests);
    if (!problem.isEmpty()) {
      throw new ModelException(problem);
    }
    return new CudaEngine(plan, source, group, settings);
  }

  private static EnginePlan plan(
      TensorSource source, LlamaConfig config, CollectiveGroup group, Settings settings) {
    if (group.backend() != Backend.CUDA) {
      throw new IllegalArgumentException("an engine on a GPU needs a group on GPUs, not " + group);
    }
    return EnginePlan.of(source, config, group, settings);
  }

  // Ranks that pass different numbers of rows through a layer could not add them up.
  private @Nullable CublasLt ofAll(@Nullable CublasLt mine) {
    if (group.worldSize() == 1) {
      return mine;
    }
    try (DeviceBuffer have = group.device().allocate(DataType.INT32, 1)) {
      int[] number = {mine == null ? 0 : 1};
      have.copyFrom(number);
      group.allReduce(have, ReduceOp.MIN);
      have.copyTo(number);
      return number[0] == 1 ? mine : null;
    }
  }

  /** Whether this build has the kernels that every GPU needs. */
  public static boolean hasKernels() {
    return KernelImage.exists("step") && KernelImage.exists("plain");
  }

  /**
   * Whether all GPUs that this process sees are new enough for groups with programmatic launch.
   * Opens none of them: that would take some of its memory until the process ends.
   */
  public static boolean takesProgrammaticLaunch() {
    return IntStream.range(0, Devices.count(Backend.CUDA))
        .allMatch(ordinal -> Gpu.capabilityMajor(ordinal) >= MIN_PROGRAMMATIC_CAPABILITY);
  }

  /**
   * When the kernels of a greedy step end, on the GPU's clock, by kernels between them that note
   * it. They lengthen a step, but each kernel may begin as early as in a step without them.
   *
   * @param firstTokens what the first step is given, by sequence
   * @param steps how many are averaged, behind one that is not
   */
  public StepTrace trace(int[] firstTokens, int steps) {
    return begun().trace(firstTokens, steps);
  }

  /** Whether the fast kernels are used. */
  public boolean isFast() {
    return isFast;
  }

  /** By what prompts pass through: the version of cuBLASLt, or slices. */
  public String prefill() {
    return largeProducts == null || onlySlices
        ? Prefill.Choice.SLICES.label()
        : largeProducts.toString();
  }

  /** Lets prompts pass in slices after the next {@link #begin}, or no longer; to compare. */
  public void prefillBySlices(boolean always) {
    onlySlices = always;
  }

  @Override
  public LlamaConfig config() {
    return config;
  }

  @Override
  public int maxRows() {
    return sequences == null ? 0 : sequences.rows;
  }

  @Override
  public void begin(int[] capacities) {
    end();
    sequences = new Sequences(capacities, PartialSums.of(group));
  }

  /**
   * Measures sequences whose layers are not summed over ranks, so that what is computed is no
   * model's. Each rank calls this. The engine has no sequences afterwards.
   *
   * @param before makes steps that feed nobody, whose layers are summed: what they leave in memory
   *     are numbers. Steps that feed themselves have been captured before it, without the sums
   */
  public <T> T withoutSums(int[] capacities, Runnable before, Supplier<T> measurement) {
    PartialSums.Silent sums = new PartialSums.Silent(PartialSums.of(group));
    return with(
        sums,
        capacities,
        () -> {
          sums.makeCallsIn(before);
          return measurement.get();
        });
  }

  /**
   * Measures sequences whose layers are summed by NCCL's all-reduces, behind each of which a call
   * of a group of this rank alone adds and normalises. Each rank calls this. The engine has no
   * sequences afterwards, and uses nothing of NCCL or the group.
   *
   * @param library of NCCL: a name that the loader finds, or a path
   * @param alone a group of this rank, on the same GPU
   */
  public <T> T withNccl(
      String library, CollectiveGroup alone, int[] capacities, Supplier<T> measurement) {
    try (NcclSums sums = NcclSums.connect(library, group, alone)) {
      return with(sums, capacities, measurement);
    }
  }

  private <T> T with(PartialSums sums, int[] capacities, Supplier<T> measurement) {
    end();
    sequences = new Sequences(capacities, sums);
    T result;
    try {
      result = measurement.get();
    } catch (RuntimeException | Error e) {
      try {
        end();
      } catch (RuntimeException alsoFailed) {
        e.addSuppressed(alsoFailed);
      }
      throw e;
    }
    end();
    return result;
  }

  private void end() {
    Sequences before = sequences;
    sequences = null;
    if (before != null) {
      try {
        stream.synchronize();
      } finally {
        before.close();
      }
    }
  }

  /**
   * Declares that every sequence has so many tokens, to measure with: in place of a prefill the
   * cache is filled with random numbers, the same for the same seed.
   */
  public void pretend(int length, long seed) {
    begun().pretend(length, seed);
  }

  /**
   * Times steps that feed themselves, on the GPU's clock. Every block begins where the sequences
   * stand, with a step that is not timed, in which the ranks come together. All blocks are enqueued
   * at once, so that no step waits for the host.
   *
   * @param begin what the first step of a block is given, and how tokens are chosen; each sequence
   *     wants a token more than there are timed steps
   * @param steps timed steps of a block
   * @param blocks how many
   * @throws ModelException if the logits are not numbers
   */
  public TimedSteps time(Continuation begin, int steps, int blocks) {
    return begun().time(begin, steps, blocks);
  }

  @Override
  public void forward(TokenBatch batch, float[][] logits) {
    begun().forward(batch, logits);
  }

  @Override
  public boolean generate(Continuation continuation, TokenListener listener) {
    return begun().generate(continuation, listener);
  }

  @Override
  public long collectiveNanos() {
    return -1;
  }

  @Override
  public void close() {
    Sequences last = sequences;
    sequences = null;
    Resources all = new Resources();
    all.own(resources::close);
    if (last != null) {
      all.own(last::close);
      // What may still run uses the memory. A failure of the group is thrown once that is freed.
      all.own(stream::synchronize);
    }
    all.close();
  }

  private Sequences begun() {
    if (sequences == null) {
      throw new IllegalStateException("the engine has no sequences: call begin first");
    }
    return sequences;
  }

  /** The sequences since {@link #begin}, and room for their steps. */
  private final class Sequences {
    private final Resources room = new Resources();
    private final int[] capacities;
    private final int[] lengths;
    private final boolean isChunked;
    private final int rows;
    private final StepState state;
    private final PagedCache cache;
    private final StepPath path;
    private final LogitsGather gather;
    private final SelfFedSteps steps;

    Sequences(int[] capacities, PartialSums sums) {
      this.capacities = capacities.clone();
      lengths = new int[capacities.length];
      isChunked = largeProducts != null && !onlySlices;
      rows =
          isChunked
              ? MemoryNeed.rowsOf(capacities, settings.prefill().chunk())
              : MemoryNeed.rowsOf(capacities);
      int longest = MemoryNeed.longestOf(capacities);
      int pages = MemoryNeed.pagesOf(capacities);
      String problem = need.problemOfSequences(gpu, gpu.freeBytes(), capacities);
      if (!problem.isEmpty()) {
        throw new ModelException(problem);
      }
      try {
        state = room.own(new StepState(group.device(), rows));
        cache = cache(pages, PagedCache.pagesOf(longest));
        path = room.own(path(new RequestState(sums, state, cache, angles(longest))));
        gather = room.own(new LogitsGather(gpu, group, stream, config, capacities.length));
        steps =
            room.own(
                new SelfFedSteps(
                    model,
                    path,
                    state,
                    capacities.length,
                    config.endTokens().size(),
                    longest,
                    settings.captures()));
        stream.synchronize();
      } catch (RuntimeException | Error e) {
        room.closeAfter(e);
        throw e;
      }
    }

    void forward(TokenBatch batch, float[][] logits) {
      BitSet seen = new BitSet();
      boolean isDecode = true;
      int positions = 0;
      for (int row = 0; row < rows; row++) {
        if (row >= batch.rows()) {
          state.set(row, 0, -1, 0);
          continue;
        }
        int sequence = batch.sequence(row);
        if (lengths[sequence] == capacities[sequence]) {
          throw new IllegalStateException(
              "sequence " + sequence + " has its " + capacities[sequence] + " tokens already");
        }
        isDecode &= !seen.get(sequence);
        seen.set(sequence);
        state.set(row, batch.token(row), lengths[sequence]++, sequence);
        positions = Math.max(positions, lengths[sequence]);
      }
      state.write(stream);
      path.enqueueLayers(batch.rows(), isDecode, path.contextFor(positions));
      if (batch.logitsRows() > 0) {
        path.enqueueLogits(wanting(batch), gather.own());
        gather.gather(batch.logitsRows(), logits);
      }
    }

    boolean generate(Continuation continuation, TokenListener listener) {
      for (int i = 0; i < capacities.length; i++) {
        if (continuation.remaining(i) > capacities[i] - lengths[i]) {
          throw new IllegalStateException(
              String.format(
                  Locale.ROOT,
                  "sequence %d has %d of its %d tokens, and %d more were to be generated",
                  i,
                  lengths[i],
                  capacities[i],
                  continuation.remaining(i)));
        }
      }
      return steps.run(continuation, lengths, listener);
    }

    void pretend(int length, long seed) {
      for (int i = 0; i < capacities.length; i++) {
        if (length > capacities[i]) {
          throw new IllegalStateException(
              String.format(
                  Locale.ROOT,
                  "sequence %d has room for %d tokens, not %d",
                  i,
                  capacities[i],
                  length));
        }
      }
      cache.fillRandomly(stream, seed);
      stream.synchronize();
      Arrays.fill(lengths, length);
    }

    TimedSteps time(Continuation begin, int count, int blocks) {
      requireRoomFor(begin.sequences(), count);
      return steps.time(begin, lengths, count, blocks);
    }

    StepTrace trace(int[] firstTokens, int count) {
      requireRoomFor(firstTokens.length, count);
      return steps.trace(firstTokens, lengths, count);
    }

    private void requireRoomFor(int sequences, int count) {
      int longest = Arrays.stream(lengths).max().orElse(0);
      if (sequences != capacities.length
          || longest + 1 + count > Arrays.stream(capacities).min().orElse(0)) {
        throw new IllegalStateException(
            String.format(
                Locale.ROOT,
                "there are %d sequences with up to %d tokens, and no room for %d steps of %d",
                capacities.length,
                longest,
                1 + count,
                sequences));
      }
    }

    void close() {
      room.close();
    }

    private int[] wanting(TokenBatch batch) {
      int[] wanting = new int[batch.logitsRows()];
      int count = 0;
      for (int row = 0; row < batch.rows(); row++) {
        if (batch.wantsLogits(row)) {
          wanting[count++] = row;
        }
      }
      return wanting;
    }

    private PagedCache cache(int pages, int pagesOfSequence) {
      long count = MemoryNeed.cacheCount(shape, pages);
      DeviceBuffer table =
          room.allocate(group.device(), DataType.INT32, (long) capacities.length * pagesOfSequence);
      table.copyFrom(pageTable(pagesOfSequence), stream);
      // Zeroed, because tiles are read whole: what no position has yet written must be a number.
      return new PagedCache(
          room.zeroed(gpu, stream, cacheType(), count),
          room.zeroed(gpu, stream, cacheType(), count),
          shape.layers(),
          pages,
          shape.keyValueHeads(),
          shape.headSize(),
          table,
          pagesOfSequence);
    }

    private int[] pageTable(int pagesOfSequence) {
      int[] table = new int[capacities.length * pagesOfSequence];
      int next = 0;
      for (int i = 0; i < capacities.length; i++) {
        for (int page = 0; page < PagedCache.pagesOf(capacities[i]); page++) {
          table[i * pagesOfSequence + page] = next++;
        }
      }
      return table;
    }

    private DeviceBuffer angles(int positions) {
      rotary.reserve(positions);
      int size = shape.headSize();
      DeviceBuffer angles =
          room.allocate(group.device(), DataType.FLOAT32, (long) positions * size);
      float[] some = new float[PagedCache.PAGE_POSITIONS * size];
      for (int first = 0; first < positions; first += PagedCache.PAGE_POSITIONS) {
        int count = Math.min(PagedCache.PAGE_POSITIONS, positions - first);
        for (int i = 0; i < count; i++) {
          rotary.copyAngles(first + i, some, i * size);
        }
        angles.copyFrom(some, 0, (long) first * size, count * size, stream);
      }
      return angles;
    }

    private StepPath path(RequestState request) {
      if (attention != null) {
        return new FastPath(
            model,
            request,
            products,
            attention,
            chunks(request),
            MemoryNeed.rowsOf(capacities),
            capacities.length);
      }
      return new PlainPath(
          model,
          request,
          new PlainKernels(products, shape, model.weights().matrixType()),
          rows,
          capacities.length);
    }

    private @Nullable ChunkLayers chunks(RequestState request) {
      if (largeProducts == null || chunkImage == null || !isChunked) {
        return null;
      }
      ChunkLayers chunks =
          new ChunkLayers(
              model,
              request,
              largeProducts,
              new ChunkKernels(
                  gpu,
                  chunkImage,
                  model.weights().matrixType(),
                  shape.headSize(),
                  group.config().cuda().programmaticLaunch()),
              rows,
              settings.prefill().leastRows());
      try {
        chunks.prepare();
      } catch (RuntimeException | Error e) {
        try (chunks) {
          throw e;
        }
      }
      return chunks;
    }

    private DataType cacheType() {
      return isFast ? model.weights().matrixType() : DataType.FLOAT32;
    }
  }
}
