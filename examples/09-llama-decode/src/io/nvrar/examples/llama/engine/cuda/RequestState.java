package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.StepState;

/**
 * What the layers of a request's steps share.
 *
 * @param sums who adds up the partial results of the ranks
 * @param rows what the rows of a step are
 * @param cache the sequences' keys and values
 * @param angles of rotary embedding, by position
 */
record RequestState(PartialSums sums, StepState rows, PagedCache cache, DeviceBuffer angles) {}
