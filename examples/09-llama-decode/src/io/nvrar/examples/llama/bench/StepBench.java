package io.nvrar.examples.llama.bench;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.engine.cuda.CudaEngine;
import io.nvrar.examples.llama.engine.cuda.StepTrace;
import io.nvrar.examples.llama.engine.cuda.TimedSteps;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.Arrays;

/** The measurements of one rank. All ranks make the same ones in the same order. */
public final class StepBench {
  /** How many steps are also made by the host, which is slow. */
  private static final int FED_STEPS = 4;

  private static final int PROMPTS = 5;
  private static final int UNTIMED_PROMPTS = 2;

  private static final long SEED = 20251125;

  private StepBench() {}

  /**
   * Times the steps of a cell, with all-reduces and without, and checks the tokens of those with.
   */
  public static RankTimes measure(CudaEngine engine, CollectiveGroup group, BenchCell cell) {
    engine.begin(cell.capacities());
    long seed = SEED + group.rank();
    RankTimes together = times(engine, cell, seed);
    return group.worldSize() == 1 || cell.isDrawing()
        ? together
        : together.withWithout(without(engine, cell, firstTokens(engine, cell), seed));
  }

  /**
   * Times the steps of a cell with NCCL's all-reduces, and checks their tokens.
   *
   * @param library of NCCL: a name that the loader finds, or a path
   */
  public static RankTimes measureWithNccl(
      CudaEngine engine, CollectiveGroup group, BenchCell cell, String library) {
    try (CollectiveGroup one = ofOne(group)) {
      return engine.withNccl(
          library, one, cell.capacities(), () -> times(engine, cell, SEED + group.rank()));
    }
  }

  private static RankTimes times(CudaEngine engine, BenchCell cell, long seed) {
    int[] first = firstTokens(engine, cell);
    engine.pretend(cell.length(), seed);
    TimedSteps timed =
        engine.time(
            cell.begin(first, 1 + cell.steps()), cell.steps(), cell.warmup() + cell.repeats());
    engine.pretend(cell.length(), seed);
    int[] tokens = generate(engine, cell, first);
    engine.pretend(cell.length(), seed);
    // The host draws by other random numbers.
    int fedSteps = cell.isDrawing() ? 0 : Math.min(FED_STEPS, 1 + cell.steps());
    int[] fed = feed(engine, first, fedSteps);
    return new RankTimes(
        counting(timed, cell),
        new double[0],
        tokens,
        engine.isFast(),
        problem(timed.lastTokens(), tokens, fed));
  }

  /** See {@link CudaEngine#trace}, for the steps of a cell. */
  public static StepTrace trace(CudaEngine engine, CollectiveGroup group, BenchCell cell) {
    engine.begin(cell.capacities());
    engine.pretend(cell.length(), SEED + group.rank());
    return engine.trace(firstTokens(engine, cell), cell.steps());
  }

  /**
   * How long a prompt takes to its first token.
   *
   * @param length tokens of the prompt
   * @param bySlices whether the prompt passes in slices, whatever else could be
   * @return seconds: the median of several
   */
  public static double firstTokenSeconds(CudaEngine engine, int length, boolean bySlices) {
    engine.prefillBySlices(bySlices);
    try {
      engine.begin(new int[] {length});
    } finally {
      engine.prefillBySlices(false);
    }
    TokenBatch batch = new TokenBatch(engine.maxRows());
    float[][] logits = new float[1][engine.config().vocabularySize()];
    double[] seconds = new double[PROMPTS];
    for (int i = -UNTIMED_PROMPTS; i < PROMPTS; i++) {
      engine.pretend(0, SEED);
      long begin = System.nanoTime();
      for (int done = 0; done < length; ) {
        batch.clear();
        while (!batch.isFull() && done < length) {
          batch.add(0, token(engine, done), ++done == length);
        }
        engine.forward(batch, logits);
      }
      greatest(logits[0]);
      if (i >= 0) {
        seconds[i] = (System.nanoTime() - begin) / 1e9;
      }
    }
    return median(seconds);
  }

  /** The median; of an even number of values the mean of the two in the middle. */
  static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  private static double[] without(CudaEngine engine, BenchCell cell, int[] first, long seed) {
    return engine.withoutSums(
        cell.capacities(),
        () -> {
          engine.pretend(cell.length(), seed);
          feed(engine, first, 1);
        },
        () -> {
          engine.pretend(cell.length(), seed);
          return counting(
              engine.time(
                  cell.begin(first, 1 + cell.steps()),
                  cell.steps(),
                  cell.warmup() + cell.repeats()),
              cell);
        });
  }

  private static CollectiveGroup ofOne(CollectiveGroup group) {
    // Not NVSHMEM, which has one world in a process.
    GroupConfig config =
        group.config().toBuilder().cuda(cuda -> cuda.memory(MemoryProvider.IPC)).build();
    GroupTicket ticket = Groups.createTicket("alone", 1, config, "127.0.0.1");
    return Groups.join(ticket, 0, group.device().ordinal());
  }

  private static double[] counting(TimedSteps timed, BenchCell cell) {
    return Arrays.copyOfRange(timed.millis(), cell.warmup(), cell.warmup() + cell.repeats());
  }

  private static int[] firstTokens(LlamaEngine engine, BenchCell cell) {
    int[] tokens = new int[cell.batch()];
    Arrays.setAll(tokens, i -> token(engine, i));
    return tokens;
  }

  // Of all ranks' parts of the vocabulary.
  private static int token(LlamaEngine engine, int i) {
    return (int) ((1 + i * 7919L) % engine.config().vocabularySize());
  }

  /** The tokens of steps that feed themselves. */
  private static int[] generate(LlamaEngine engine, BenchCell cell, int[] first) {
    int batch = first.length;
    int steps = 1 + cell.steps();
    int[] tokens = new int[steps * batch];
    int[] done = new int[batch];
    engine.generate(
        cell.begin(first, steps),
        (sequence, token) -> tokens[done[sequence]++ * batch + sequence] = token);
    return tokens;
  }

  /** The tokens of steps that the host feeds with the greatest logit of the last one. */
  private static int[] feed(LlamaEngine engine, int[] first, int steps) {
    int batch = first.length;
    TokenBatch rows = new TokenBatch(batch);
    float[][] logits = new float[batch][engine.config().vocabularySize()];
    int[] tokens = new int[steps * batch];
    for (int step = 0; step < steps; step++) {
      rows.clear();
      for (int i = 0; i < batch; i++) {
        rows.add(i, step == 0 ? first[i] : tokens[(step - 1) * batch + i], true);
      }
      engine.forward(rows, logits);
      for (int i = 0; i < batch; i++) {
        tokens[step * batch + i] = greatest(logits[i]);
      }
    }
    return tokens;
  }

  private static int greatest(float[] logits) {
    int best = 0;
    for (int i = 1; i < logits.length; i++) {
      if (logits[i] > logits[best]) {
        best = i;
      }
    }
    return best;
  }

  static String problem(int[] lastTimed, int[] tokens, int[] fed) {
    if (!Arrays.equals(fed, 0, fed.length, tokens, 0, fed.length)) {
      return "the tokens of captured steps are not those of steps that the host feeds";
    }
    int last = tokens.length - lastTimed.length;
    if (!Arrays.equals(lastTimed, 0, lastTimed.length, tokens, last, tokens.length)) {
      return "the tokens of timed steps are not those of a decode";
    }
    return "";
  }
}
