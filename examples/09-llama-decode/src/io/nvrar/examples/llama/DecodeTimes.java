package io.nvrar.examples.llama;

/**
 * The times at which a rank began and had its first and last token, and its time in collectives.
 */
final class DecodeTimes {
  private static final double NANOS = 1e9;

  private long begin;
  private long first;
  private long last;
  private long collective;
  private int tokens;

  synchronized void begin() {
    begin = System.nanoTime();
    first = begin;
    last = begin;
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
    last = System.nanoTime();
    collective = collectiveNanos;
  }

  /** Seconds: from begin to first token, from begin to end, in collectives; then the tokens. */
  synchronized double[] toArray() {
    return new double[] {
      (first - begin) / NANOS, (last - begin) / NANOS, collective / NANOS, tokens
    };
  }
}
