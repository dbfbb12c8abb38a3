package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import java.util.Locale;

/** The kernels at the two ends of a step ({@code step.cu}). Not thread-safe. */
public final class StepEnds {
  private static final int THREADS = 256;
  private static final int TOTALS_THREADS = 1024;
  private static final int WARP = 32;

  private final CudaKernel embed;
  private final CudaKernel best;
  private final CudaKernel bestOfLogits;
  private final CudaKernel choose;
  private final CudaKernel totals;
  private final CudaKernel draw;
  private final boolean programmatic;
  private final KernelArguments arguments = new KernelArguments();

  /**
   * For a path.
   *
   * @param image the kernels {@code step}
   * @param weights the type of the embedding
   * @param rows the type of the rows that it makes
   * @param programmatic whether launches may overlap
   */
  public StepEnds(KernelImage image, DataType weights, DataType rows, boolean programmatic) {
    embed =
        image.kernel(String.format(Locale.ROOT, "llama_embed_%s_%s", name(weights), name(rows)));
    best = image.kernel("llama_best");
    bestOfLogits = image.kernel("llama_best_of_logits");
    choose = image.kernel("llama_choose");
    totals = image.kernel("llama_totals");
    draw = image.kernel("llama_draw");
    this.programmatic = programmatic;
  }

  /** A type as kernels' names have it. */
  static String name(DataType type) {
    return type.name().toLowerCase(Locale.ROOT);
  }

  /** Writes this rank's part of the embeddings of a step's rows. */
  public void embed(
      DeviceStream stream,
      RankShape shape,
      DeviceBuffer table,
      StepState state,
      int rows,
      DeviceBuffer out) {
    arguments
        .clear()
        .parameter()
        .pointer(table)
        .pointer(state.tokens())
        .pointer(state.positions())
        .pointer(out)
        .int32(shape.hidden())
        .int32(shape.firstToken())
        .int32(shape.vocabulary());
    embed.launch(stream, shape(rows, THREADS), arguments);
  }

  /** The greatest of the {@code count} keys of each row. */
  public void best(DeviceStream stream, int rows, DeviceBuffer keys, int count, DeviceBuffer out) {
    arguments.clear().parameter().pointer(keys).pointer(out).int32(count);
    best.launch(stream, shape(rows, WARP), arguments);
  }

  /** The greatest key of each row of logits. */
  public void bestOfLogits(
      DeviceStream stream,
      int rows,
      RankShape shape,
      DeviceBuffer logits,
      RowSampling sampling,
      DeviceBuffer out) {
    sampling
        .put(arguments.clear().parameter().pointer(logits).pointer(out))
        .int32(shape.vocabulary())
        .int32(shape.firstToken());
    bestOfLogits.launch(stream, shape(rows, THREADS), arguments);
  }

  /**
   * The greatest logit of each row, and the sum of the weights of all beside it.
   *
   * @param out INT64 [rows][2]
   */
  void totals(
      DeviceStream stream,
      int rows,
      RankShape shape,
      DeviceBuffer logits,
      RowSampling sampling,
      DeviceBuffer out) {
    arguments
        .clear()
        .parameter()
        .pointer(logits)
        .pointer(out)
        .pointer(sampling.temperatures())
        .int32(shape.vocabulary());
    totals.launch(stream, shape(rows, TOTALS_THREADS), arguments);
  }

  /**
   * Chooses the next tokens.
   *
   * @param keys INT64 [ranks][rows]: the greatest of each rank
   */
  public void choose(DeviceStream stream, Next next, DeviceBuffer keys, int ranks) {
    next.put(arguments.clear().parameter());
    arguments.pointer(keys).int32(ranks);
    choose.launch(stream, shape(1, THREADS), arguments);
  }

  /** Draws the next tokens among the likeliest. */
  public void draw(
      DeviceStream stream, Next next, Likeliest.Found likeliest, RowSampling sampling) {
    next.put(arguments.clear().parameter());
    likeliest.put(arguments, sampling);
    draw.launch(stream, shape(1, THREADS), arguments);
  }

  /**
   * Where the next tokens go.
   *
   * @param state becomes that of the next step
   * @param remaining INT32 [rows]: how many tokens each row still wants
   * @param endTokens INT32: tokens that end a row
   * @param step INT32 [1]: how many steps were made
   * @param ring INT64 [ringSteps][rows], in the host's memory
   */
  public record Next(
      StepState state,
      DeviceBuffer remaining,
      DeviceBuffer endTokens,
      DeviceBuffer step,
      DeviceBuffer ring,
      int rows,
      int ringSteps) {

    private void put(KernelArguments arguments) {
      arguments
          .pointer(state.tokens())
          .pointer(state.positions())
          .pointer(remaining)
          .pointer(endTokens)
          .pointer(step)
          .pointer(ring)
          .int32(rows)
          .int32((int) endTokens.count())
          .int32(ringSteps);
    }
  }

  private LaunchConfig shape(int blocks, int threads) {
    return LaunchConfig.of(blocks, threads).programmatic(programmatic);
  }
}
