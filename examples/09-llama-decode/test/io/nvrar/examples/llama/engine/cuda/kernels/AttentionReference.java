package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * A step's attention in float64, with random numbers. The pages of a sequence are in any order, and
 * all memory that belongs to no position before a row's holds no numbers.
 */
final class AttentionReference {
  /** Of the cache; the step's is one of them. */
  static final int LAYERS = 2;

  /** Of a row's sums of squares. */
  static final int PARTS = 5;

  static final float EPSILON = 1e-5f;

  private static final int PAGE = PagedCache.PAGE_POSITIONS;

  private final AttentionCase test;
  private final int pagesOfSequence;
  private final int pages;
  private final int[] table;
  private final float[] keys;
  private final float[] values;
  private final float[] qkv;
  private final float[] bias;
  private final float[] squares;
  private final float[] rope;
  private final double[] out;
  private final double[] allowed;

  /**
   * Random numbers of a step.
   *
   * @param layers how many of the layers have keys and values of earlier positions, the last ones
   */
  AttentionReference(AttentionCase test, int layers) {
    this.test = test;
    int last = Math.max(0, Collections.max(test.positions()));
    // A page more, for steps that follow.
    pagesOfSequence = last / PAGE + 2;
    int sequences = IntStream.range(0, test.batch()).map(test::sequence).max().orElse(0) + 1;
    pages = sequences * pagesOfSequence + 3;
    Random random = new Random(test.toString().hashCode());
    table = shuffledPages(random, sequences);
    int size = test.headSize();
    int poolSize = LAYERS * pages * test.keyValueHeads() * PAGE * size;
    keys = new float[poolSize];
    values = new float[poolSize];
    Arrays.fill(keys, Float.NaN);
    Arrays.fill(values, Float.NaN);
    for (int layer = LAYERS - layers; layer < LAYERS; layer++) {
      fillEarlier(random, layer);
    }
    int width = (test.heads() + 2 * test.keyValueHeads()) * size;
    // Unscaled, so of any size; the squares bring the numbers back to about 1.
    qkv = FastKernelContract.random(random, DataType.FLOAT32, test.batch() * width, 3);
    if (test.peaked()) {
      for (int i = 0; i < qkv.length; i++) {
        qkv[i] *= i % width < test.heads() * size ? 3 : 1;
      }
    }
    bias = FastKernelContract.random(random, DataType.FLOAT32, width, 0.5);
    squares = new float[test.batch() * PARTS];
    for (int i = 0; i < squares.length; i++) {
      squares[i] = 64 * 9 * (0.5f + random.nextFloat());
    }
    int positions = pagesOfSequence * PAGE;
    rope = new float[positions * size];
    for (int position = 0; position < positions; position++) {
      for (int i = 0; i < size / 2; i++) {
        double angle = position * Math.pow(10000, -2.0 * i / size);
        rope[position * size + 2 * i] = (float) Math.cos(angle);
        rope[position * size + 2 * i + 1] = (float) Math.sin(angle);
      }
    }
    out = new double[test.batch() * test.heads() * size];
    allowed = new double[out.length];
  }

  int pages() {
    return pages;
  }

  int pagesOfSequence() {
    return pagesOfSequence;
  }

  int[] table() {
    return table;
  }

  /** The pool: before {@link #compute} without, after it with what the step adds. */
  float[] keys() {
    return keys;
  }

  /** The pool: before {@link #compute} without, after it with what the step adds. */
  float[] values() {
    return values;
  }

  float[] qkv() {
    return qkv;
  }

  float[] bias() {
    return bias;
  }

  float[] squares() {
    return squares;
  }

  float[] rope() {
    return rope;
  }

  double[] out() {
    return out;
  }

  /** How far from {@link #out} a result may be. */
  double[] allowed() {
    return allowed;
  }

  /** Adds the rows' keys and values to a layer, and attends. */
  void compute(int layer) {
    for (int row = 0; row < test.batch(); row++) {
      if (test.position(row) >= 0) {
        for (int head = 0; head < test.keyValueHeads(); head++) {
          int at = place(layer, test.sequence(row), test.position(row), head);
          store(projected(row, test.heads() + head, true), keys, at);
          store(projected(row, test.heads() + test.keyValueHeads() + head, false), values, at);
        }
      }
    }
    IntStream.range(0, test.batch() * test.heads())
        .parallel()
        .filter(i -> test.position(i / test.heads()) >= 0)
        .forEach(i -> attend(layer, i / test.heads(), i % test.heads()));
  }

  private void attend(int layer, int row, int head) {
    int size = test.headSize();
    int count = test.position(row) + 1;
    int keyValueHead = head / test.group();
    float[] query = new float[size];
    store(projected(row, head, true), query, 0);
    double[] scores = new double[count];
    double greatest = Double.NEGATIVE_INFINITY;
    for (int position = 0; position < count; position++) {
      int at = place(layer, test.sequence(row), position, keyValueHead);
      double sum = 0;
      for (int i = 0; i < size; i++) {
        sum += (double) query[i] * keys[at + i];
      }
      scores[position] = sum / Math.sqrt(size);
      greatest = Math.max(greatest, scores[position]);
    }
    double total = 0;
    double[] sums = new double[size];
    double[] magnitudes = new double[size];
    for (int position = 0; position < count; position++) {
      double weight = Math.exp(scores[position] - greatest);
      int at = place(layer, test.sequence(row), position, keyValueHead);
      total += weight;
      for (int i = 0; i < size; i++) {
        sums[i] += weight * values[at + i];
        magnitudes[i] += weight * Math.abs(values[at + i]);
      }
    }
    double rounding = FastKernelContract.roundingError(test.type());
    int at = (row * test.heads() + head) * size;
    for (int i = 0; i < size; i++) {
      out[at + i] = sums[i] / total;
      // The weights and the result are rounded; a number of the query or of what is added may be
      // rounded the other way.
      allowed[at + i] =
          rounding * (2.5 * magnitudes[i] / total + 1.1 * Math.abs(out[at + i])) + 2e-4;
    }
  }

  private double[] projected(int row, int head, boolean turned) {
    int size = test.headSize();
    int width = (test.heads() + 2 * test.keyValueHeads()) * size;
    double sum = 0;
    for (int i = 0; i < PARTS; i++) {
      sum += squares[row * PARTS + i];
    }
    double scale = 1 / Math.sqrt(sum / (PARTS * 64) + EPSILON);
    double[] numbers = new double[size];
    for (int i = 0; i < size; i++) {
      numbers[i] = qkv[row * width + head * size + i] * scale;
      if (test.biased()) {
        numbers[i] += bias[head * size + i];
      }
    }
    if (turned) {
      int at = test.position(row) * size;
      for (int i = 0; i < size / 2; i++) {
        double first = numbers[i];
        double second = numbers[i + size / 2];
        double cosine = rope[at + 2 * i];
        double sine = rope[at + 2 * i + 1];
        numbers[i] = first * cosine - second * sine;
        numbers[i + size / 2] = second * cosine + first * sine;
      }
    }
    return numbers;
  }

  private void store(double[] numbers, float[] to, int at) {
    for (int i = 0; i < numbers.length; i++) {
      to[at + i] = FastKernelContract.rounded(test.type(), (float) numbers[i]);
    }
  }

  private void fillEarlier(Random random, int layer) {
    for (int row = 0; row < test.batch(); row++) {
      for (int position = 0; position < test.position(row); position++) {
        for (int head = 0; head < test.keyValueHeads(); head++) {
          int at = place(layer, test.sequence(row), position, head);
          for (int i = 0; i < test.headSize(); i++) {
            keys[at + i] = number(random);
            values[at + i] = number(random);
          }
        }
      }
    }
  }

  private float number(Random random) {
    return FastKernelContract.rounded(test.type(), (random.nextFloat() - 0.5f) * 3.4f);
  }

  private int place(int layer, int sequence, int position, int head) {
    int page = table[sequence * pagesOfSequence + position / PAGE];
    int pageAndHead = (layer * pages + page) * test.keyValueHeads() + head;
    return (pageAndHead * PAGE + position % PAGE) * test.headSize();
  }

  private int[] shuffledPages(Random random, int sequences) {
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < pages; i++) {
      order.add(i);
    }
    Collections.shuffle(order, random);
    return IntStream.range(0, sequences * pagesOfSequence).map(order::get).toArray();
  }
}
