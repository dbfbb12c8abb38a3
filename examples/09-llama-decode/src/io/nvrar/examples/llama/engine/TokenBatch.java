package io.nvrar.examples.llama.engine;

/**
 * The rows of one forward pass: tokens of any sequences side by side, without padding. Prefill has
 * many rows of a sequence, decode has one.
 */
public final class TokenBatch {
  private final int[] tokens;
  private final int[] sequences;
  private final boolean[] wantsLogits;
  private int rows;
  private int logitsRows;

  /** Empty, with room for {@code maxRows} rows. */
  public TokenBatch(int maxRows) {
    tokens = new int[maxRows];
    sequences = new int[maxRows];
    wantsLogits = new boolean[maxRows];
  }

  /** Removes all rows. */
  public void clear() {
    rows = 0;
    logitsRows = 0;
  }

  /** Adds the next token of a sequence. */
  public void add(int sequence, int token, boolean wantsItsLogits) {
    tokens[rows] = token;
    sequences[rows] = sequence;
    wantsLogits[rows] = wantsItsLogits;
    rows++;
    logitsRows += wantsItsLogits ? 1 : 0;
  }

  /** Whether no row fits any more. */
  public boolean isFull() {
    return rows == tokens.length;
  }

  /** The number of rows. */
  public int rows() {
    return rows;
  }

  /** The number of rows that want logits. */
  public int logitsRows() {
    return logitsRows;
  }

  /** A row's token. */
  public int token(int row) {
    return tokens[row];
  }

  /** A row's sequence. */
  public int sequence(int row) {
    return sequences[row];
  }

  /** Whether a row wants its logits. */
  public boolean wantsLogits(int row) {
    return wantsLogits[row];
  }
}
