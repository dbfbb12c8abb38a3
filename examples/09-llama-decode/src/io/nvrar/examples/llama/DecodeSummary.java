package io.nvrar.examples.llama;

import java.util.List;
import java.util.Locale;

/**
 * The speed of a run.
 *
 * @param startupSeconds from the command's start until the weights were loaded
 * @param firstTokenSeconds from the request to the first token at the driver
 * @param prefill by what the prompts passed through the model; empty on CPUs
 * @param decodeSeconds from the request to the last token, on rank 0
 * @param generatedTokens the number of tokens of all prompts
 * @param tokensPerSecond for all prompts, after the first token of each
 * @param collectiveShare part of the time spent in collectives, waiting for slower ranks included;
 *     the mean over the ranks; negative if an engine cannot tell
 */
record DecodeSummary(
    double startupSeconds,
    double firstTokenSeconds,
    String prefill,
    double decodeSeconds,
    int generatedTokens,
    double tokensPerSecond,
    double collectiveShare) {

  /** Computes it from the ranks' measurements, see {@link DecodeTimes#toArray}. */
  static DecodeSummary of(
      double startupSeconds,
      double firstTokenSeconds,
      String prefill,
      int sequences,
      List<double[]> ranks) {
    double[] first = ranks.get(0);
    int tokens = (int) first[3];
    double share = 0;
    for (double[] rank : ranks) {
      share = rank[2] < 0 || share < 0 ? -1 : share + rank[2] / rank[4] / ranks.size();
    }
    boolean prefillOnly = tokens <= sequences;
    double speed = prefillOnly ? tokens / first[1] : (tokens - sequences) / (first[1] - first[0]);
    return new DecodeSummary(
        startupSeconds, firstTokenSeconds, prefill, first[1], tokens, speed, share);
  }

  String sentence() {
    String speed =
        String.format(
            Locale.ROOT,
            "%d tokens, %.1f tokens/s, first token after %.3f s (ready after %.1f s%s)",
            generatedTokens,
            tokensPerSecond,
            firstTokenSeconds,
            startupSeconds,
            prefill.isEmpty() ? "" : ", prefill by " + prefill);
    return collectiveShare < 0
        ? speed + "."
        : speed
            + String.format(
                Locale.ROOT,
                ", %.0f %% of the time in collectives, waits for other ranks included.",
                100 * collectiveShare);
  }
}
