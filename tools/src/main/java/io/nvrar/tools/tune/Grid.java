package io.nvrar.tools.tune;

import io.nvrar.Algorithm;
import io.nvrar.TuningTable.Collective;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** The candidates for a size: algorithms, and on GPUs blocks and tiles that differ there. */
final class Grid {
  private static final List<Integer> FEW_BLOCKS = List.of(0, 8, 16, 32, 64, 128);
  private static final List<Integer> ALL_BLOCKS =
      List.of(0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256);
  private static final List<Integer> TILES = List.of(0, 1, 2, 4, 8);

  /** Of one rank, as native/src/protocol has it: 32 packets of 16 bytes. */
  private static final int RUN_BYTES = 512;

  private Grid() {}

  /** Those with the least fixed first. */
  static List<Candidate> of(TuneSettings settings, long bytes, boolean full) {
    List<Candidate> candidates = new ArrayList<>();
    for (Algorithm algorithm : algorithms(settings)) {
      if (!settings.onGpu()) {
        candidates.add(new Candidate(algorithm, 0, 0));
        continue;
      }
      long runs = (settings.bytesOfRule(bytes) + RUN_BYTES - 1) / RUN_BYTES;
      long tiles =
          Math.max(
              (runs + runsOfTile(settings, algorithm) - 1) / runsOfTile(settings, algorithm), 1);
      for (int blocks : full ? ALL_BLOCKS : FEW_BLOCKS) {
        for (int atOnce : TILES) {
          if (differs(tiles, blocks, atOnce)) {
            candidates.add(new Candidate(algorithm, blocks, atOnce));
          }
        }
      }
    }
    candidates.sort(Comparator.comparingInt(Candidate::complexity));
    return candidates;
  }

  private static List<Algorithm> algorithms(TuneSettings settings) {
    if (settings.collective() != Collective.ALL_REDUCE) {
      return List.of(Algorithm.AUTO);
    }
    return settings.inNodes()
        ? List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT, Algorithm.HIERARCHICAL)
        : List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT);
  }

  private static int runsOfTile(TuneSettings settings, Algorithm algorithm) {
    return switch (algorithm) {
      case TWO_SHOT -> settings.ranks();
      case HIERARCHICAL -> settings.ranksPerNode();
      case AUTO, ONE_SHOT -> 1;
    };
  }

  /** Whether the shape is not that of a candidate that fixes less. */
  private static boolean differs(long tiles, int blocks, int atOnce) {
    boolean idleWarps = atOnce > 1 && atOnce / 2 >= tiles;
    boolean enoughBlocks = blocks != 0 && (long) blocks * Math.max(atOnce, 1) >= tiles;
    return !idleWarps && !enoughBlocks;
  }
}
