package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.kernels.StepEnds;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;

/**
 * A rank's part of a model on its GPU, for all requests.
 *
 * @param gpu the GPU
 * @param group the rank's member of the group
 * @param stream on which all steps run
 * @param shape the sizes of the part
 * @param epsilon of RMSNorm
 * @param weights the part's weights
 * @param ends the kernels at the two ends of a step
 */
record RankModel(
    Gpu gpu,
    CollectiveGroup group,
    DeviceStream stream,
    RankShape shape,
    float epsilon,
    GpuWeights weights,
    StepEnds ends) {}
