package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DeviceBuffer;

/**
 * Keys and values of all layers in pages of {@link #PAGE_POSITIONS} positions, and which pages a
 * sequence has.
 *
 * @param keys [layers][pages][keyValueHeads][64][headSize]
 * @param values the same
 * @param table INT32 [sequences][pagesOfSequence]: page p of a sequence has its positions from 64 p
 */
record PagedCache(
    DeviceBuffer keys,
    DeviceBuffer values,
    int layers,
    int pages,
    int keyValueHeads,
    int headSize,
    DeviceBuffer table,
    int pagesOfSequence) {

  static final int PAGE_POSITIONS = 64;

  /** Rows of one position and head of a layer. */
  long rowsOfLayer() {
    return (long) pages * keyValueHeads * PAGE_POSITIONS;
  }

  /** Rows of one position and head of all layers. */
  long rows() {
    return layers * rowsOfLayer();
  }
}
