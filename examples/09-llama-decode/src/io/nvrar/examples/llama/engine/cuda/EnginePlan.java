package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLt;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLtSearch;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.kernels.PlainKernels;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaTensors;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * How a rank's part of a model is decoded on its GPU, and whether it can be. Takes nothing of the
 * GPU's memory.
 *
 * @param gpu the GPU
 * @param config the model
 * @param tensors the rank's tensors
 * @param shape their sizes
 * @param matrices the format of the matrices
 * @param isFast whether the fast kernels are used
 * @param prefill how prompts are to pass through it
 * @param library what multiplies many rows; null if prompts pass in slices
 * @param whySlices why it is none; without a full stop
 * @param need what it takes of the GPU's memory
 */
record EnginePlan(
    Gpu gpu,
    LlamaConfig config,
    RankTensors tensors,
    RankShape shape,
    FloatFormat matrices,
    boolean isFast,
    Prefill prefill,
    @Nullable CublasLt library,
    String whySlices,
    MemoryNeed need) {

  /**
   * For a member of a group on GPUs.
   *
   * @param settings how the engine is to work
   */
  static EnginePlan of(
      TensorSource source,
      LlamaConfig config,
      CollectiveGroup group,
      CudaEngine.Settings settings) {
    LlamaTensors.check(source, config);
    Shard shard = Shard.of(config, group.rank(), group.worldSize());
    RankTensors tensors = RankTensors.of(config, shard);
    FloatFormat matrices = tensors.matrixFormat(source);
    Gpu gpu = new Gpu(group.device(), group.rank());
    boolean isFast =
        settings.fast()
            && FastPath.takes(gpu, config, group.worldSize(), GpuWeights.typeOf(matrices));
    Prefill prefill = settings.prefill();
    CublasLtSearch.Result found = found(gpu, config, isFast, prefill);
    int chunk = found.library() == null ? 0 : prefill.chunk();
    return new EnginePlan(
        gpu,
        config,
        tensors,
        RankShape.of(config, shard),
        matrices,
        isFast,
        prefill,
        found.library(),
        found.problem(),
        new MemoryNeed(config, tensors, shard, matrices, isFast, chunk));
  }

  private static CublasLtSearch.Result found(
      Gpu gpu, LlamaConfig config, boolean isFast, Prefill prefill) {
    return takesLibrary(config, isFast, prefill)
        ? CublasLtSearch.on(gpu, prefill.library())
        : new CublasLtSearch.Result(
            null,
            isFast
                ? "the model's o projection has a bias"
                : "the fast kernels do not take this model or GPU");
  }

  /** The type of the matrices. */
  DataType type() {
    return GpuWeights.typeOf(matrices);
  }

  /** Whether cuBLASLt was searched for, which all ranks decide alike. */
  boolean searchesLibrary() {
    return takesLibrary(config, isFast, prefill);
  }

  private static boolean takesLibrary(LlamaConfig config, boolean isFast, Prefill prefill) {
    return prefill.choice() != Prefill.Choice.SLICES
        && isFast
        && KernelImage.exists("prefill")
        && !config.attentionOutputBias();
  }

  /** The image of the kernels that multiply. */
  String products() {
    return isFast ? "gemm" : "plain";
  }

  /**
   * Why it cannot be decoded; empty if it can.
   *
   * @param requests the capacities of the sequences of each request
   */
  String problem(int[][] requests) {
    if (!isFast && config.headSize() > PlainKernels.MAX_HEAD_SIZE) {
      return String.format(
          Locale.ROOT,
          "The model has heads of %d numbers, and on GPUs this decoder takes at most %d.",
          config.headSize(),
          PlainKernels.MAX_HEAD_SIZE);
    }
    if (prefill.choice() == Prefill.Choice.CUBLASLT && library == null) {
      return "Prompts cannot be prefilled by cuBLASLt: " + whySlices + ".";
    }
    String ofKernels = KernelImage.problem(gpu, "step", products());
    return ofKernels.isEmpty() ? need.problem(gpu, gpu.freeBytes(), requests) : ofKernels;
  }
}
