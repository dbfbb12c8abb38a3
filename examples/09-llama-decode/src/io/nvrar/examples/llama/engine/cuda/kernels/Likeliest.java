package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.TopK;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import org.jspecify.annotations.Nullable;

/**
 * The likeliest tokens of a step's rows over the vocabularies of all ranks, and what they weigh.
 */
public final class Likeliest implements Resources.Resource {
  /** How many are looked at where only their probability is limited. */
  private static final int CANDIDATES = 256;

  private final Resources resources = new Resources();
  private final CollectiveGroup group;
  private final TopK topK;
  private final @Nullable DeviceBuffer ownTotals;
  private final Found found;

  /**
   * What is drawn among.
   *
   * @param values FLOAT32 [rows][k]: logits, the greatest first
   * @param indices INT32 [rows][k]: their tokens; -1 where there are no more
   * @param totals INT64 [ranks][rows][2] of {@link StepEnds#totals}; null if only these tokens
   *     count
   * @param topP FLOAT32 [1]: the least total probability
   */
  public record Found(
      DeviceBuffer values,
      DeviceBuffer indices,
      @Nullable DeviceBuffer totals,
      DeviceBuffer topP,
      int k,
      int ranks) {

    /** Appends the fields of {@code DrawArgs} behind those of the next step. */
    void put(KernelArguments arguments, RowSampling rows) {
      arguments.pointer(values).pointer(indices).pointer(totals).pointer(topP);
      rows.put(arguments).int32(k).int32(ranks);
    }
  }

  /**
   * Which of the likeliest.
   *
   * @param k how many
   * @param ofAll whether a probability is one of all tokens, and not of these k
   */
  public record Kind(int k, boolean ofAll) {
    public static Kind of(Continuation continuation) {
      return continuation.topK() > 0
          ? new Kind(continuation.topK(), false)
          : new Kind(CANDIDATES, true);
    }
  }

  /** Makes room. */
  public Likeliest(CollectiveGroup group, RankShape shape, int rows, Kind kind) {
    this.group = group;
    int k = kind.k();
    boolean ofAll = kind.ofAll();
    Device device = group.device();
    try {
      ownTotals = ofAll ? resources.allocate(device, DataType.INT64, 2L * rows) : null;
      found =
          new Found(
              resources.allocate(device, DataType.FLOAT32, (long) rows * k),
              resources.allocate(device, DataType.INT32, (long) rows * k),
              ofAll
                  ? resources.allocate(device, DataType.INT64, 2L * rows * group.worldSize())
                  : null,
              resources.allocate(device, DataType.FLOAT32, 1),
              k,
              group.worldSize());
      topK = TopK.of(k, shape.vocabulary(), shape.firstToken(), found.values(), found.indices());
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /** What the next steps draw by. */
  public void write(Continuation continuation, DeviceStream stream) {
    found.topP().copyFrom(new float[] {continuation.topP()}, stream);
  }

  /** Enqueues what finds them in the logits of this rank's vocabulary. */
  public Found find(
      DeviceStream stream, StepEnds ends, RankShape shape, DeviceBuffer logits, RowSampling rows) {
    group.topK(logits, topK, stream);
    DeviceBuffer totals = found.totals();
    if (ownTotals != null && totals != null) {
      ends.totals(stream, topK.rows(), shape, logits, rows, ownTotals);
      group.allGather(ownTotals, totals, stream);
    }
    return found;
  }

  @Override
  public void close() {
    resources.close();
  }
}
