package io.nvrar.tools.tune;

/**
 * What is measured at once: a candidate at a size, so many times.
 *
 * @param bytes the size as the benchmark counts it, of the larger side
 * @param repeats batches, of which the median counts
 */
record Point(long bytes, Candidate candidate, int repeats) {}
