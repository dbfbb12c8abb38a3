package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaTensors;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;

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
 * @param need what it takes of the GPU's memory
 */
record EnginePlan(
    Gpu gpu,
    LlamaConfig config,
    RankTensors tensors,
    RankShape shape,
    FloatFormat matrices,
    boolean isFast,
    MemoryNeed need) {

  /**
   * For a member of a group on GPUs.
   *
   * @param fast whether the fast kernels are to be used where they take the model
   */
  static EnginePlan of(
      TensorSource source, LlamaConfig config, CollectiveGroup group, boolean fast) {
    LlamaTensors.check(source, config);
    Shard shard = Shard.of(config, group.rank(), group.worldSize());
    RankTensors tensors = RankTensors.of(config, shard);
    FloatFormat matrices = tensors.matrixFormat(source);
    Gpu gpu = new Gpu(group.device(), group.rank());
    boolean isFast =
        fast && FastPath.takes(gpu, config, group.worldSize(), GpuWeights.typeOf(matrices));
    return new EnginePlan(
        gpu,
        config,
        tensors,
        RankShape.of(config, shard),
        matrices,
        isFast,
        new MemoryNeed(config, tensors, shard, matrices, isFast));
  }

  /** The type of the matrices. */
  DataType type() {
    return GpuWeights.typeOf(matrices);
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
      return "The model has heads of %d numbers, and on GPUs this decoder takes at most %d."
          .formatted(config.headSize(), PlainKernels.MAX_HEAD_SIZE);
    }
    String ofKernels = KernelImage.problem(gpu, "step", products());
    return ofKernels.isEmpty() ? need.problem(gpu, gpu.freeBytes(), requests) : ofKernels;
  }
}
