package io.nvrar.examples.llama;

/**
 * The times at which a rank began, had its first and last token and ended, and its time in
 * collectives.
 */
final class DecodeTimes {
  private static final double NANOS = 1e9;

  private long begin;
  private long first;
  private long last;
  private long end;
  private long collective;
  private int tokens;

  synchronized void begin() {
    begin = System.nanoTime();
    first = begin;
    last = begin;
    end = begin;
    tokens = 0;
    collective = 0;
  }

  synchronized void token() {
    last = System.nanoTime();
    if (tokens++ == 0) {
      first = last;
    }
  }

  synchronized void end(long collectiveNanos) {
    end = System.nanoTime();
    collective = collectiveNanos;
  }

  /**
   * Seconds: from begin to first token, from begin to last token, in collectives; then the tokens;
   * then seconds from begin to end. After the last token a GPU still executes the steps that were
   * enqueued ahead.
   */
  synchronized double[] toArray() {
    return new double[] {
      (first - begin) / NANOS,
      (last - begin) / NANOS,
      collective / NANOS,
      tokens,
      (end - begin) / NANOS
    };
  }
}
