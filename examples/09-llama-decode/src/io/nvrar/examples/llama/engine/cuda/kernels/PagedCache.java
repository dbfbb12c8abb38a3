package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.util.SplittableRandom;

/**
 * Keys and values of all layers in pages of {@link #PAGE_POSITIONS} positions, and which pages a
 * sequence has.
 *
 * @param keys [layers][pages][keyValueHeads][64][headSize]
 * @param values the same
 * @param table INT32 [sequences][pagesOfSequence]: page p of a sequence has its positions from 64 p
 */
public record PagedCache(
    DeviceBuffer keys,
    DeviceBuffer values,
    int layers,
    int pages,
    int keyValueHeads,
    int headSize,
    DeviceBuffer table,
    int pagesOfSequence) {

  public static final int PAGE_POSITIONS = 64;

  /** The pages of a sequence with room for so many positions. */
  public static int pagesOf(int positions) {
    return Math.max(1, (positions + PAGE_POSITIONS - 1) / PAGE_POSITIONS);
  }

  private static final int RANDOM_NUMBERS = 1 << 20;

  /**
   * Fills it with numbers between -1 and 1 in the order of a stream, the same for the same seed.
   * They repeat after a MiB or more.
   */
  public void fillRandomly(DeviceStream stream, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    fillRandomly(stream, keys, random);
    fillRandomly(stream, values, random);
  }

  private static void fillRandomly(
      DeviceStream stream, DeviceBuffer buffer, SplittableRandom random) {
    float[] numbers = new float[(int) Math.min(RANDOM_NUMBERS, buffer.count())];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = (float) (2 * random.nextDouble() - 1);
    }
    buffer.copyFrom(numbers, stream);
    for (long done = numbers.length; done < buffer.count(); done *= 2) {
      long more = Math.min(done, buffer.count() - done);
      stream.copy(buffer.slice(0, more), buffer.slice(done, more));
    }
  }

  /** Rows of one position and head of a layer. */
  long rowsOfLayer() {
    return (long) pages * keyValueHeads * PAGE_POSITIONS;
  }

  /** Rows of one position and head of all layers. */
  long rows() {
    return layers * rowsOfLayer();
  }
}
