package io.nvrar.internal.channel;

/**
 * What rank 0's member sees of its group, in shared memory and on its host, which observers cannot
 * see. Each clause begins with "; ", or is "" where there is nothing to say. No method blocks.
 */
public interface RankZeroView {
  /** Of a group that is not complete, or that rank 0 has left. */
  RankZeroView NOTHING =
      new RankZeroView() {
        @Override
        public String activities() {
          return "";
        }

        @Override
        public String flightRecord(boolean isRankZeroLost) {
          return "";
        }
      };

  /** What each rank is doing. */
  String activities();

  /**
   * Where rank 0's host writes its flight record if the group fails.
   *
   * @param isRankZeroLost whether another rank of that host would have to write it
   */
  String flightRecord(boolean isRankZeroLost);
}
