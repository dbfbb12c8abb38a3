package io.nvrar.examples.llama.engine.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/**
 * Engines of the ranks of a group, as threads of this process: rank r on GPU r modulo the number of
 * GPUs, or what {@code -Dnvrar.test.gpus} says. More ranks than GPUs need {@code
 * -Dnvrar.sharedDevices=true} and {@code CUDA_DEVICE_MAX_CONNECTIONS=32}.
 */
final class GpuRanks {
  private static final long LIMIT_SECONDS = 60;

  private GpuRanks() {}

  /** Skips a test where so many ranks cannot be. */
  static void assumeRoomFor(int worldSize) {
    assumeTrue(Devices.unavailabilityCause(Backend.CUDA) == null, "there is no GPU");
    assumeTrue(CudaEngine.hasKernels(), "this build has no kernels");
    assumeTrue(
        worldSize <= gpus() || isShared(),
        worldSize + " ranks on " + gpus() + " GPUs need -Dnvrar.sharedDevices=true");
  }

  /** Whether the first GPU is a Hopper or a Blackwell of a data centre, which fast kernels suit. */
  static boolean areDataCentreGpus() {
    assumeRoomFor(1);
    int major = Gpu.capabilityMajor(0);
    return major == 9 || major == 10;
  }

  /** What a rank does. */
  interface Body<T> {
    T run(LlamaEngine engine, boolean isFast);
  }

  /**
   * Runs {@code body} with an engine on each rank; returns what they return, by rank.
   *
   * @param tensors opens the weights, once for each rank
   */
  static <T> List<T> run(
      int worldSize,
      LlamaConfig config,
      Supplier<TensorSource> tensors,
      CudaEngine.Settings settings,
      Body<T> body)
      throws Exception {
    return run(worldSize, config, tensors, settings, new int[0][], body);
  }

  /** The same with engines that are loaded for requests of these capacities. */
  static <T> List<T> run(
      int worldSize,
      LlamaConfig config,
      Supplier<TensorSource> tensors,
      CudaEngine.Settings settings,
      int[][] requests,
      Body<T> body)
      throws Exception {
    assumeRoomFor(worldSize);
    // A fast product needs nearly all shared memory of a multiprocessor. On a shared GPU blocks of
    // other ranks' collectives, which wait for this rank, may hold some of each.
    assumeTrue(
        worldSize <= gpus() || !isFast(worldSize, config, tensors, settings),
        String.format(
            Locale.ROOT,
            "the fast kernels of %d ranks need a GPU for each, and there are %d: -Dnvrar.test.gpus=%d",
            worldSize,
            gpus(),
            worldSize));
    CyclicBarrier allHaveBegun = new CyclicBarrier(worldSize);
    return RankThreads.run(
        worldSize,
        groupConfig(worldSize),
        rank -> rank % gpus(),
        group -> {
          CudaEngine loaded = load(config, tensors, group, settings, requests);
          try (LlamaEngine engine = new Together(loaded, allHaveBegun)) {
            return body.run(engine, loaded.isFast());
          }
        });
  }

  private static boolean isFast(
      int worldSize,
      LlamaConfig config,
      Supplier<TensorSource> tensors,
      CudaEngine.Settings settings) {
    try (TensorSource source = tensors.get()) {
      FloatFormat matrices =
          RankTensors.of(config, Shard.of(config, 0, worldSize)).matrixFormat(source);
      return settings.fast()
          && FastPath.takes(
              new Gpu(Devices.open(Backend.CUDA, 0)),
              config,
              worldSize,
              GpuWeights.typeOf(matrices));
    }
  }

  private static CudaEngine load(
      LlamaConfig config,
      Supplier<TensorSource> tensors,
      CollectiveGroup group,
      CudaEngine.Settings settings,
      int[][] requests) {
    try (TensorSource source = tensors.get()) {
      return CudaEngine.load(source, config, group, requests, settings);
    }
  }

  // As decode makes it, but for ranks that share a GPU: what starts early there could keep the
  // kernel that it waits for from starting.
  private static GroupConfig groupConfig(int worldSize) {
    boolean alone = worldSize <= gpus();
    return GroupConfig.builder()
        .backend(Backend.CUDA)
        .cuda(
            cuda ->
                cuda.exclusive(alone)
                    .programmaticLaunch(alone && CudaEngine.takesProgrammaticLaunch()))
        .build();
  }

  private static int gpus() {
    return Integer.getInteger("nvrar.test.gpus", Devices.count(Backend.CUDA));
  }

  private static boolean isShared() {
    return Boolean.getBoolean("nvrar.sharedDevices");
  }

  /**
   * An engine whose ranks go on from {@link #begin} together: a rank that allocates memory waits
   * for all that runs on its GPU, and on a shared GPU that may be a kernel that waits for it.
   */
  private static final class Together implements LlamaEngine {
    private final LlamaEngine engine;
    private final CyclicBarrier allHaveBegun;

    Together(LlamaEngine engine, CyclicBarrier allHaveBegun) {
      this.engine = engine;
      this.allHaveBegun = allHaveBegun;
    }

    @Override
    public LlamaConfig config() {
      return engine.config();
    }

    @Override
    public int maxRows() {
      return engine.maxRows();
    }

    @Override
    public void begin(int[] capacities) {
      engine.begin(capacities);
      try {
        allHaveBegun.await(LIMIT_SECONDS, TimeUnit.SECONDS);
      } catch (InterruptedException | BrokenBarrierException | TimeoutException e) {
        throw new IllegalStateException("the other ranks have not begun", e);
      }
    }

    @Override
    public void forward(TokenBatch batch, float[][] logits) {
      engine.forward(batch, logits);
    }

    @Override
    public boolean generate(Continuation continuation, TokenListener listener) {
      return engine.generate(continuation, listener);
    }

    @Override
    public long collectiveNanos() {
      return engine.collectiveNanos();
    }

    @Override
    public void close() {
      engine.close();
    }
  }
}
