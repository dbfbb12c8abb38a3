package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.examples.llama.engine.cuda.kernels.LargeProducts;
import io.nvrar.examples.llama.engine.cuda.kernels.PagedCache;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * The bytes that a rank takes of its GPU's memory: its weights, and for the sequences of a request
 * their keys, their values and their steps.
 */
final class MemoryNeed {
  /** Rows of a prefill step in slices, as those of the CPU's engine. */
  private static final int PREFILL_ROWS = 128;

  /** What the driver hands out memory in, but for small buffers, which share one. */
  private static final long PAGE_BYTES = 2 << 20;

  private final LlamaConfig config;
  private final RankTensors tensors;
  private final RankShape shape;
  private final int worldSize;
  private final FloatFormat matrices;
  private final FloatFormat others;
  private final boolean isFast;
  private final int chunk;

  /**
   * Of a rank.
   *
   * @param matrices the format of its matrices
   * @param isFast whether the fast kernels are used, for which norms, keys and values are in that
   *     format too; else they are in float32
   * @param chunk most rows of prompts that pass through a layer together by large products; 0 if
   *     none do
   */
  MemoryNeed(
      LlamaConfig config,
      RankTensors tensors,
      Shard shard,
      FloatFormat matrices,
      boolean isFast,
      int chunk) {
    this.config = config;
    this.tensors = tensors;
    this.shape = RankShape.of(config, shard);
    this.worldSize = shard.worldSize();
    this.matrices = matrices;
    this.others = isFast ? matrices : FloatFormat.F32;
    this.isFast = isFast;
    this.chunk = chunk;
  }

  /**
   * Rows of the largest step, of those that need no large products, of sequences with room for so
   * many tokens each.
   */
  static int rowsOf(int[] capacities) {
    return rowsOf(capacities, PREFILL_ROWS);
  }

  /** Rows of the largest chunk of up to so many. */
  static int rowsOf(int[] capacities, int chunk) {
    long tokens = Arrays.stream(capacities).asLongStream().sum();
    return (int) Math.max(capacities.length, Math.min(chunk, tokens));
  }

  /** Positions of the longest. */
  static int longestOf(int[] capacities) {
    return Math.max(1, Arrays.stream(capacities).max().orElse(0));
  }

  /** Pages of all sequences together. */
  static int pagesOf(int[] capacities) {
    return Math.toIntExact(Arrays.stream(capacities).mapToLong(PagedCache::pagesOf).sum());
  }

  /** The numbers of the keys of so many pages; the values are as many. */
  static long cacheCount(RankShape shape, int pages) {
    return (long) shape.layers()
        * pages
        * shape.keyValueHeads()
        * PagedCache.PAGE_POSITIONS
        * shape.headSize();
  }

  /** The rank's weights. */
  long weights() {
    return tensors.inLoadingOrder().stream()
        .mapToLong(tensor -> onPages(tensor.bytes(GpuWeights.formatOf(tensor, matrices, others))))
        .sum();
  }

  /** Keys and values. */
  long cache(int[] capacities) {
    return 2 * onPages(cacheCount(shape, pagesOf(capacities)) * others.sizeBytes());
  }

  /** What steps write, the angles of positions and gathered logits. */
  long steps(int[] capacities) {
    return rowsOf(capacities) * (isFast ? FastPath.bytesOfRow(shape) : PlainPath.bytesOfRow(shape))
        + (long) longestOf(capacities) * shape.headSize() * Float.BYTES
        + capacities.length * LogitsGather.bytesOfRow(config, worldSize)
        + (chunk == 0
            ? 0
            : LargeProducts.padded(rowsOf(capacities, chunk)) * ChunkLayers.bytesOfRow(shape));
  }

  /** What large products write while they compute. */
  private long workspace() {
    return chunk == 0 ? 0 : LargeProducts.WORKSPACE_BYTES;
  }

  /**
   * Why the weights, and after each other the sequences of some requests, do not fit; empty if they
   * do.
   *
   * @param gpu what messages call it
   * @param free its free bytes
   * @param requests the capacities of the sequences of each
   */
  String problem(Object gpu, long free, int[][] requests) {
    int[] largest = {};
    for (int[] request : requests) {
      if (ofSequences(request) > ofSequences(largest)) {
        largest = request;
      }
    }
    long bytes = weights() + workspace() + ofSequences(largest);
    if (bytes <= free) {
      return Stream.of(requests)
          .map(this::problemOfLogits)
          .filter(problem -> !problem.isEmpty())
          .findFirst()
          .orElse("");
    }
    if (largest.length == 0) {
      return String.format(Locale.ROOT, "The rank's weights take %d bytes, and %s", bytes, gpu)
          + missing(bytes, free);
    }
    return String.format(
            Locale.ROOT,
            "The rank's weights take %d bytes, the keys and values of %s %d and their steps %d, %d together, and %s",
            weights(),
            named(largest),
            cache(largest),
            steps(largest) + workspace(),
            bytes,
            gpu)
        + missing(bytes, free);
  }

  /** Why sequences do not fit beside the weights; empty if they do. */
  String problemOfSequences(Object gpu, long free, int[] capacities) {
    long bytes = ofSequences(capacities);
    return bytes <= free
        ? problemOfLogits(capacities)
        : String.format(
                Locale.ROOT,
                "The keys and values of %s, and their steps, take %d bytes, and %s",
                named(capacities),
                bytes,
                gpu)
            + missing(bytes, free);
  }

  // They are gathered to one pinned buffer of the host, and such a buffer has at most 2 GiB.
  private String problemOfLogits(int[] capacities) {
    long bytes = capacities.length * LogitsGather.hostBytesOfRow(config, worldSize);
    return bytes <= Integer.MAX_VALUE
        ? ""
        : String.format(
            Locale.ROOT,
            "The logits of %d sequences take %d bytes of the host's pinned memory, and at most %d can be used.",
            capacities.length,
            bytes,
            Integer.MAX_VALUE);
  }

  private long ofSequences(int[] capacities) {
    return capacities.length == 0 ? 0 : cache(capacities) + steps(capacities);
  }

  private static String named(int[] capacities) {
    return String.format(
        Locale.ROOT, "%d sequences of up to %d tokens", capacities.length, longestOf(capacities));
  }

  private static String missing(long bytes, long free) {
    return String.format(Locale.ROOT, " has %d free: %d bytes are missing.", free, bytes - free);
  }

  private static long onPages(long bytes) {
    return bytes < PAGE_BYTES / 2 ? bytes : (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  }
}
