package io.nvrar.examples.llama;

import io.nvrar.examples.llama.generate.TokenSink;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * A queue of the tokens that rank 0 has generated and its driver has not fetched yet. The decode
 * thread adds, the actor's Ray thread takes.
 */
final class GeneratedTokens implements TokenSink {
  private final boolean keepLogits;
  private final Deque<byte[]> logits = new ArrayDeque<>();
  private int[] pairs = new int[64];
  private int used;
  private boolean ended;

  GeneratedTokens(boolean keepLogits) {
    this.keepLogits = keepLogits;
  }

  @Override
  public synchronized void accept(int sequence, int token, float[] row) {
    if (used == pairs.length) {
      pairs = Arrays.copyOf(pairs, 2 * used);
    }
    pairs[used++] = sequence;
    pairs[used++] = token;
    if (keepLogits) {
      logits.add(bytes(row));
    }
    notifyAll();
  }

  /** Marks the end: no more tokens will come, whether decoding succeeded or failed. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  /**
   * Returns the tokens added since the last call: first 1 if no more will come, else 0; then
   * sequence, token, sequence, token ... Waits at most the given milliseconds for one.
   */
  synchronized int[] take(long millis) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    long left = millis;
    while (used == 0 && !ended && left > 0) {
      wait(left);
      left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
    }
    int[] taken = new int[1 + used];
    taken[0] = ended ? 1 : 0;
    System.arraycopy(pairs, 0, taken, 1, used);
    used = 0;
    return taken;
  }

  /** The oldest row of logits, that of the oldest token, little-endian, or null. */
  synchronized byte @Nullable [] takeLogits() {
    return logits.poll();
  }

  private static byte[] bytes(float[] row) {
    ByteBuffer bytes = ByteBuffer.allocate(row.length * Float.BYTES);
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(row);
    return bytes.array();
  }
}
