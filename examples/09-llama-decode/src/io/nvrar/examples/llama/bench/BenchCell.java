package io.nvrar.examples.llama.bench;

import io.nvrar.examples.llama.engine.Continuation;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;

/**
 * What is measured at a time: blocks of steps, each of which ends at the same context. A class and
 * not a record: Ray's serializer cannot read records back.
 */
public final class BenchCell implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final long SEED = 20261130;

  /** What the context is a multiple of: a page of the cache. */
  public static final int CONTEXT_MULTIPLE = 64;

  /** With the step that is not timed, a block then stays in one page. */
  public static final int MAX_STEPS = CONTEXT_MULTIPLE - 1;

  private final int batch;
  private final int context;
  private final int steps;
  private final int warmup;
  private final int repeats;
  private final float temperature;
  private final int topK;
  private final float topP;

  /**
   * With all of it.
   *
   * @param batch sequences
   * @param context how many positions the last step of a block attends to, its own included
   * @param steps timed steps of a block
   * @param warmup blocks that do not count
   * @param repeats blocks that count
   */
  public BenchCell(int batch, int context, int steps, int warmup, int repeats) {
    this(batch, context, steps, warmup, repeats, 0, 0, 1);
  }

  private BenchCell(
      int batch,
      int context,
      int steps,
      int warmup,
      int repeats,
      float temperature,
      int topK,
      float topP) {
    this.batch = batch;
    this.context = context;
    this.steps = steps;
    this.warmup = warmup;
    this.repeats = repeats;
    this.temperature = temperature;
    this.topK = topK;
    this.topP = topP;
  }

  /** The same, but tokens are drawn, as {@link Continuation} says. */
  public BenchCell drawing(float withTemperature, int ofTopK, float ofTopP) {
    return new BenchCell(batch, context, steps, warmup, repeats, withTemperature, ofTopK, ofTopP);
  }

  /** Whether tokens are drawn, and not those of the greatest logits. */
  boolean isDrawing() {
    return temperature > 0;
  }

  /** Where a block begins. */
  Continuation begin(int[] first, int tokens) {
    int[] wanted = new int[first.length];
    Arrays.fill(wanted, tokens);
    return new Continuation(first, wanted, List.of(), temperature, topK, topP, SEED);
  }

  /** Sequences. */
  public int batch() {
    return batch;
  }

  /** How many positions the last step of a block attends to, its own included. */
  public int context() {
    return context;
  }

  /** Timed steps of a block. */
  public int steps() {
    return steps;
  }

  /** Blocks that do not count. */
  public int warmup() {
    return warmup;
  }

  /** Blocks that count. */
  public int repeats() {
    return repeats;
  }

  /**
   * How many tokens each sequence has before a block, which begins with a step that is not timed.
   */
  public int length() {
    return context - steps - 1;
  }

  /** The room that each sequence needs. */
  public int[] capacities() {
    int[] capacities = new int[batch];
    Arrays.fill(capacities, context);
    return capacities;
  }

  /** How many positions a timed step attends to on average. */
  public double meanPositions() {
    return context - (steps - 1) / 2.0;
  }
}
