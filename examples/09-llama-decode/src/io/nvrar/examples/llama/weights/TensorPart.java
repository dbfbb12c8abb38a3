package io.nvrar.examples.llama.weights;

/**
 * Part of a matrix of a checkpoint, or of a vector, which counts as a single row.
 *
 * @param name the tensor's name in the checkpoint
 * @param rows the rows of the part
 * @param columns the columns of the part
 * @param totalColumns the columns that the tensor has
 */
public record TensorPart(String name, Range rows, Range columns, int totalColumns) {

  /** Whole rows, which lie together in a file. */
  static TensorPart rows(String name, Range rows, int totalColumns) {
    return new TensorPart(name, rows, Range.of(totalColumns), totalColumns);
  }

  /** A piece of each row. */
  static TensorPart columns(String name, int rows, Range columns, int totalColumns) {
    return new TensorPart(name, Range.of(rows), columns, totalColumns);
  }

  /** Part of a vector. */
  static TensorPart vector(String name, Range part, int total) {
    return columns(name, 1, part, total);
  }

  /** How many numbers it has. */
  public long count() {
    return (long) rows.count() * columns.count();
  }

  /** Whether its numbers lie together in the tensor. */
  boolean isContiguous() {
    return columns.count() == totalColumns || rows.count() == 1;
  }

  /** Where in the tensor, row by row, a number of the part is. */
  long indexInTensor(long index) {
    long row = rows.first() + index / columns.count();
    return row * totalColumns + columns.first() + index % columns.count();
  }
}
