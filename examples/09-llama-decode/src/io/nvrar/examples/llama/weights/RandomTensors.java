package io.nvrar.examples.llama.weights;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongConsumer;

/**
 * A model's tensors in bf16, made from a seed instead of read from files: each number is a function
 * of the seed, the tensor's name and the place in it, so that every rank of every world makes its
 * part of the same model. {@code model/random_weights.py} makes the same bits.
 */
public final class RandomTensors implements TensorSource {
  // The increment and the multipliers of SplitMix64 (Steele, Lea, Flood 2014).
  private static final long INCREMENT = 0x9e3779b97f4a7c15L;
  private static final long FIRST_MULTIPLIER = 0xbf58476d1ce4e5b9L;
  private static final long SECOND_MULTIPLIER = 0x94d049bb133111ebL;

  // FNV-1a.
  private static final long NAME_BASIS = 0xcbf29ce484222325L;
  private static final long NAME_PRIME = 0x100000001b3L;

  private static final int NUMBERS_PER_WORD = 4;
  private static final int BITS_PER_NUMBER = 16;

  private final Map<String, Tensor> tensors = new HashMap<>();
  private final LongConsumer progress;

  /**
   * Describes a model; no number is made before it is asked for.
   *
   * @param config the model
   * @param seed another seed makes other numbers
   * @param progress hears how many bytes were made since it heard last, from whichever thread made
   *     them
   */
  public RandomTensors(LlamaConfig config, long seed, LongConsumer progress) {
    Map<Distribution, short[]> numbers = new HashMap<>();
    LlamaTensors.shapes(config)
        .forEach(
            (name, shape) ->
                tensors.put(
                    name,
                    new Tensor(
                        shape,
                        mixed(seed ^ hash(name)),
                        numbers.computeIfAbsent(
                            distribution(name, shape), Distribution::numbers))));
    this.progress = progress;
  }

  @Override
  public boolean has(String name) {
    return tensors.containsKey(name);
  }

  @Override
  public FloatFormat format(String name) {
    find(name);
    return FloatFormat.BF16;
  }

  @Override
  public void require(String name, List<Long> shape) {
    if (!find(name).shape.equals(shape)) {
      throw new ModelException(
          String.format(
              Locale.ROOT, "%s has the shape %s, not %s.", name, find(name).shape, shape));
    }
  }

  @Override
  public void copy(TensorPart part, long first, ByteBuffer target) {
    Tensor tensor = find(part.name());
    int bytes = target.remaining();
    ByteOrder order = target.order();
    target.order(ByteOrder.LITTLE_ENDIAN);
    long next = first;
    while (target.hasRemaining()) {
      int toRowEnd = part.columns().count() - (int) (next % part.columns().count());
      int left = target.remaining() / Short.BYTES;
      int count = part.isContiguous() ? left : Math.min(toRowEnd, left);
      tensor.fill(part.indexInTensor(next), count, target);
      next += count;
    }
    target.order(order);
    progress.accept(bytes);
  }

  @Override
  public void close() {}

  private Tensor find(String name) {
    Tensor tensor = tensors.get(name);
    if (tensor == null) {
      throw new ModelException("The model of random weights lacks " + name + ".");
    }
    return tensor;
  }

  // Standard deviations for which activations neither vanish nor overflow in any layer: a
  // projection
  // keeps the size of its input, and attention is sharp enough to depend on positions.
  private static Distribution distribution(String name, List<Long> shape) {
    if (name.endsWith("norm.weight")) {
      return new Distribution(1, 0.2);
    }
    if (name.endsWith(".bias")) {
      return new Distribution(0, 0.25);
    }
    boolean sharp =
        name.equals(LlamaTensors.EMBEDDING)
            || name.equals(LlamaTensors.HEAD)
            || name.endsWith(LlamaTensors.weight(LlamaTensors.QUERY))
            || name.endsWith(LlamaTensors.weight(LlamaTensors.KEY));
    return new Distribution(0, (sharp ? 2 : 1) / Math.sqrt(shape.get(1)));
  }

  /** 65536 numbers at equal distances, all as likely. */
  private record Distribution(float center, double deviation) {

    /** The numbers in bf16. */
    short[] numbers() {
      float step = (float) (deviation * Math.sqrt(3) / 65536);
      short[] numbers = new short[65536];
      for (int i = 0; i < numbers.length; i++) {
        // An odd integer is not 0, and exact in float32.
        numbers[i] = FloatFormat.toBrain(center + (2 * i - 65535) * step);
      }
      return numbers;
    }
  }

  private static long hash(String name) {
    long hash = NAME_BASIS;
    for (byte letter : name.getBytes(UTF_8)) {
      hash = (hash ^ (letter & 0xff)) * NAME_PRIME;
    }
    return hash;
  }

  private static long mixed(long bits) {
    long z = bits;
    z = (z ^ (z >>> 30)) * FIRST_MULTIPLIER;
    z = (z ^ (z >>> 27)) * SECOND_MULTIPLIER;
    return z ^ (z >>> 31);
  }

  private static final class Tensor {
    private final List<Long> shape;
    private final long key;
    private final short[] numbers;

    Tensor(List<Long> shape, long key, short[] numbers) {
      this.shape = shape;
      this.key = key;
      this.numbers = numbers;
    }

    void fill(long from, int count, ByteBuffer target) {
      long index = from;
      long end = from + count;
      while (index < end && index % NUMBERS_PER_WORD != 0) {
        target.putShort(number(index++));
      }
      int words = (int) ((end - index) / NUMBERS_PER_WORD);
      if (words > 0) {
        fillWords(index / NUMBERS_PER_WORD, words, target);
        index += (long) words * NUMBERS_PER_WORD;
      }
      while (index < end) {
        target.putShort(number(index++));
      }
    }

    private void fillWords(long first, int count, ByteBuffer target) {
      int at = target.position();
      for (int i = 0; i < count; i++) {
        long word = word(first + i);
        target.putLong(
            at + i * Long.BYTES,
            bits(word)
                | bits(word >>> 16) << 16
                | bits(word >>> 32) << 32
                | bits(word >>> 48) << 48);
      }
      target.position(at + count * Long.BYTES);
    }

    private short number(long index) {
      int place = (int) (index % NUMBERS_PER_WORD);
      return (short) bits(word(index / NUMBERS_PER_WORD) >>> (place * BITS_PER_NUMBER));
    }

    private long word(long index) {
      return mixed(key + index * INCREMENT);
    }

    private long bits(long word) {
      return numbers[(int) (word & 0xffff)] & 0xffff;
    }
  }
}
