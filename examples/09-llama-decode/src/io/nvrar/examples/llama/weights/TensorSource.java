package io.nvrar.examples.llama.weights;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * Where the numbers of a model's tensors come from. Safe for use by several threads, as long as
 * each has a target of its own.
 */
public interface TensorSource extends AutoCloseable {

  /** Whether there is a tensor of this name. */
  boolean has(String name);

  /**
   * How the numbers of a tensor are stored.
   *
   * @throws ModelException if there is no such tensor, or its format is unknown
   */
  FloatFormat format(String name);

  /**
   * Checks that a tensor is there, of a known format and of a shape.
   *
   * @throws ModelException with both shapes, or with what is missing or unknown
   */
  void require(String name, List<Long> shape);

  /**
   * Fills a buffer with numbers of a part, row by row and as they are stored.
   *
   * @param part which numbers; the part lies within the tensor
   * @param first the first of them that is wanted
   * @param target from its position to its limit, whole numbers; is full at return
   */
  void copy(TensorPart part, long first, ByteBuffer target);

  @Override
  void close();
}
