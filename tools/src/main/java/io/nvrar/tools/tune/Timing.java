package io.nvrar.tools.tune;

/**
 * The result of a point.
 *
 * @param us the median of the batches, in microseconds a call on the slowest rank
 * @param leastUs the fastest batch
 * @param mostUs the slowest batch
 * @param wrong the number of wrong elements, over all ranks
 */
record Timing(double us, double leastUs, double mostUs, long wrong) {}
