package io.nvrar.examples.llama.weights;

/**
 * Consecutive indices.
 *
 * @param first the first
 * @param count how many; may be 0
 */
public record Range(int first, int count) {

  /** One past the last. */
  public int end() {
    return first + count;
  }

  /** Whether an index is one of these. */
  public boolean contains(int index) {
    return index >= first && index < end();
  }

  /** The indices of {@code size} numbers for each of these. */
  public Range times(int size) {
    return new Range(Math.multiplyExact(first, size), Math.multiplyExact(count, size));
  }

  /** From 0. */
  static Range of(int count) {
    return new Range(0, count);
  }

  /** The part of {@code whole} indices that one of {@code parts} gets; earlier parts are larger. */
  static Range part(int whole, int index, int parts) {
    int size = whole / parts;
    int larger = whole % parts;
    return new Range(index * size + Math.min(index, larger), size + (index < larger ? 1 : 0));
  }
}
