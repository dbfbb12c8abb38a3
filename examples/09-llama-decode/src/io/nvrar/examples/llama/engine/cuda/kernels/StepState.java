package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;

/** What the rows of a step are, in the GPU's memory. */
public final class StepState implements Resources.Resource {
  private final Resources resources = new Resources();
  private final int rows;
  private final DeviceBuffer all;
  private final DeviceBuffer tokens;
  private final DeviceBuffer positions;
  private final DeviceBuffer sequences;
  private final int[] written;

  /** For steps of up to so many rows. */
  public StepState(Device device, int rows) {
    this.rows = rows;
    all = resources.allocate(device, DataType.INT32, 3L * rows);
    tokens = all.slice(0, rows);
    positions = all.slice(rows, rows);
    sequences = all.slice(2L * rows, rows);
    written = new int[3 * rows];
  }

  /** How many rows there are. */
  public int rows() {
    return rows;
  }

  /** Sets a row, for {@link #write}; the position -1 makes it idle. */
  public void set(int row, int token, int position, int sequence) {
    written[row] = token;
    written[rows + row] = position;
    written[2 * rows + row] = sequence;
  }

  /** Copies all rows to the GPU, in the order of a stream. */
  public void write(DeviceStream stream) {
    all.copyFrom(written, stream);
  }

  /** What a row was set to: its sequence and position. */
  public ChunkKernels.Place place(int row) {
    return new ChunkKernels.Place(written[2 * rows + row], written[rows + row]);
  }

  /** The token that goes in. */
  public DeviceBuffer tokens() {
    return tokens;
  }

  /** Its position, -1 for an idle row. */
  public DeviceBuffer positions() {
    return positions;
  }

  /** The sequence of the row. */
  public DeviceBuffer sequences() {
    return sequences;
  }

  @Override
  public void close() {
    resources.close();
  }
}
