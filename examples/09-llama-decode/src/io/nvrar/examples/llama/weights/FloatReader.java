package io.nvrar.examples.llama.weights;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Reads a rank's tensors as float32. */
final class FloatReader {
  // Rows transposed together: 16 floats fill a cache line of the target.
  private static final int BLOCK = 16;

  private final TensorSource source;

  FloatReader(TensorSource source) {
    this.source = source;
  }

  /** Reads a matrix; number c of row r comes to {@code target[c][r]}. */
  void transposed(RankTensor tensor, float[][] target) {
    int at = 0;
    for (TensorPart part : tensor.parts()) {
      if (part.count() > 0) {
        transpose(part, target, at);
      }
      at += part.rows().count();
    }
  }

  private void transpose(TensorPart part, float[][] target, int at) {
    FloatFormat format = source.format(part.name());
    int columns = part.columns().count();
    int rowBytes = Math.multiplyExact(columns, format.sizeBytes());
    ByteBuffer bytes = littleEndian(Math.multiplyExact(BLOCK, rowBytes));
    for (int row = 0; row < part.rows().count(); row += BLOCK) {
      int count = Math.min(BLOCK, part.rows().count() - row);
      source.copy(part, (long) row * columns, bytes.clear().limit(count * rowBytes));
      for (int column = 0; column < columns; column++) {
        float[] numbers = target[column];
        for (int i = 0; i < count; i++) {
          numbers[at + row + i] = format.read(bytes, (i * columns + column) * format.sizeBytes());
        }
      }
    }
  }

  /** Reads a vector. */
  float[] vector(RankTensor tensor) {
    ByteBuffer bytes = littleEndian(Math.multiplyExact(tensor.columns(), Float.BYTES));
    tensor.read(source, FloatFormat.F32, 0, bytes);
    float[] numbers = new float[tensor.columns()];
    bytes.flip().asFloatBuffer().get(numbers);
    return numbers;
  }

  private static ByteBuffer littleEndian(int capacity) {
    return ByteBuffer.allocate(capacity).order(ByteOrder.LITTLE_ENDIAN);
  }
}
