package io.nvrar.examples.onnx;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;

/**
 * A rank's part of the model. ONNX Runtime writes its partial sums into the memory of a buffer of
 * the group, which the all-reduce replaces by the sums over all ranks: nothing is copied. Used by
 * one thread at a time.
 */
final class Shard implements AutoCloseable {
  private final CollectiveGroup group;
  private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
  private final int rows;
  private final int hidden;
  private final OrtSession session;
  private final DeviceBuffer buffer;

  /** The buffer's memory, valid until {@link #close}. */
  private final FloatBuffer output;

  private final OnnxTensor outputTensor;

  /**
   * @param group on the CPU
   * @param model a file with the input {@code x} and the output {@code partial}, both [rows,
   *     hidden]
   */
  Shard(CollectiveGroup group, Path model, int rows, int hidden) throws OrtException {
    if (group.device().backend() != Backend.CPU) {
      throw new IllegalArgumentException(
          "the model runs on the CPU, the group is on " + group.device());
    }
    this.group = group;
    this.rows = rows;
    this.hidden = hidden;
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      // The ranks of a host share its cores; by default each would use all of them.
      options.setIntraOpNumThreads(1);
      session = environment.createSession(model.toString(), options);
    }
    buffer = group.device().allocate(DataType.FLOAT32, (long) rows * hidden);
    output =
        new Pointer(buffer.address())
            .getByteBuffer(0, buffer.sizeBytes())
            .order(ByteOrder.nativeOrder())
            .asFloatBuffer();
    outputTensor = OnnxTensor.createTensor(environment, output, new long[] {rows, hidden});
  }

  /**
   * Runs this rank's part and sums the results of all. All ranks call it at the same point of their
   * work.
   *
   * @param x the input, [rows * hidden], the same on every rank
   * @return the output, [rows * hidden], overwritten by the next run
   */
  FloatBuffer run(FloatBuffer x) throws OrtException {
    try (OnnxTensor input = OnnxTensor.createTensor(environment, x, new long[] {rows, hidden})) {
      // Closing the result does not close the output, which is ours.
      session.run(Map.of("x", input), Set.of(), Map.of("partial", outputTensor)).close();
    }
    group.allReduce(buffer);
    return output.duplicate();
  }

  @Override
  public void close() throws OrtException {
    outputTensor.close();
    buffer.close();
    session.close();
  }
}
