package io.nvrar.examples.llama.bench;

import com.google.gson.JsonObject;
import io.nvrar.tools.bench.results.ResultLine;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The lines of a run that measures decode steps, which {@code native/bench/README.md} describes.
 * What is finished is kept after each cell, and stays if a later cell fails.
 */
public final class DecodeResults {
  /** Our steps, and our all-reduces. */
  public static final String NVRAR = "nvrar";

  /** Whose all-reduces our steps may have instead of ours. */
  public static final String NCCL = "nccl";

  /** Our steps with our all-reduces whose tokens are drawn. */
  public static final String DRAWING = "nvrar, drawing";

  private static final String PROBLEM = "problem";

  private final Keeper keeper;
  private final List<JsonObject> lines = new ArrayList<>();
  private boolean failed;

  /** Measures a cell. */
  public interface Measurement {
    /** Returns its lines. */
    List<JsonObject> of(BenchCell cell) throws IOException, InterruptedException;
  }

  /** Keeps what there is. */
  public interface Keeper {
    /** Gets all lines after each cell. */
    void keep(List<JsonObject> lines) throws IOException, InterruptedException;
  }

  /** Begins with the line about the run. */
  public DecodeResults(JsonObject run, Keeper keeper) {
    this.keeper = keeper;
    lines.add(run);
  }

  public List<JsonObject> lines() {
    return lines;
  }

  /** Whether a cell could not be measured. */
  public boolean hasFailed() {
    return failed;
  }

  /** Whether there is any result yet. */
  public boolean isEmpty() {
    return lines.size() == 1;
  }

  /** Adds the time to the first token of a prompt. */
  public void addFirstToken(int promptTokens, String prefill, double millis) {
    JsonObject shape = new JsonObject();
    shape.addProperty("prompt_tokens", promptTokens);
    shape.addProperty("prefill", prefill);
    JsonObject line = ResultLine.of("first-token", NVRAR, shape);
    ResultLine.addTimes(line, "ms", List.of(millis));
    lines.add(line);
  }

  /**
   * Adds the results of cells, or their failures.
   *
   * @param library whose steps they are
   * @param goesOn whether cells can still be measured once one has failed
   * @throws IOException if the results cannot be kept
   */
  public void measure(
      String library, boolean goesOn, List<BenchCell> cells, Measurement measurement)
      throws IOException, InterruptedException {
    boolean over = false;
    for (BenchCell cell : cells) {
      if (over) {
        addFailure(library, cell, "a cell before it has failed");
      } else {
        try {
          lines.addAll(measurement.of(cell));
        } catch (IOException | RuntimeException e) {
          over = !goesOn;
          addFailure(library, cell, String.valueOf(e.getMessage()));
        }
      }
      keeper.keep(lines);
    }
  }

  private void addFailure(String library, BenchCell cell, String problem) {
    failed = true;
    JsonObject line = ResultLine.of("failure", library, shape(cell));
    line.addProperty(PROBLEM, problem);
    lines.add(line);
  }

  /** The first step that was measured, whichever all-reduces it had. */
  public Optional<JsonObject> first() {
    return steps().findFirst();
  }

  private Stream<JsonObject> steps() {
    return lines.stream().filter(line -> line.get("kind").getAsString().equals("decode"));
  }

  /** Our line of a cell with our all-reduces, if that was measured. */
  public Optional<JsonObject> oursOf(BenchCell cell) {
    JsonObject shape = shape(cell);
    return steps()
        .filter(line -> line.get("library").getAsString().equals(NVRAR))
        .filter(
            line -> {
              JsonObject its = line.getAsJsonObject("shape");
              return its.get("all_reduce").getAsString().equals(NVRAR)
                  && its.entrySet().containsAll(shape.entrySet());
            })
        .findFirst();
  }

  private static JsonObject shape(BenchCell cell) {
    JsonObject shape = new JsonObject();
    shape.addProperty("batch", cell.batch());
    shape.addProperty("context", cell.context());
    return shape;
  }

  /** A result of our steps: of each block, on which the slowest rank counts. */
  public static JsonObject line(
      BenchCell cell, String allReduce, List<RankTimes> ranks, StepFloor floor) {
    JsonObject line = begun(cell, allReduce, ranks.size());
    ResultLine.addTimes(line, "ms", slowest(ranks.stream().map(RankTimes::stepMillis).toList()));
    line.addProperty("floor", floor.millis());
    List<Double> without = slowest(ranks.stream().map(RankTimes::withoutMillis).toList());
    line.addProperty("without", without.isEmpty() ? null : ResultLine.median(without));
    line.addProperty(PROBLEM, problem(ranks));
    return line;
  }

  /** A result of what will be measured, without its times. */
  public static JsonObject planned(BenchCell cell, @Nullable Integer ranks) {
    JsonObject line = begun(cell, NVRAR, ranks == null ? 1 : ranks);
    ResultLine.addTimes(line, "ms", List.of(1.0));
    return line;
  }

  private static JsonObject begun(BenchCell cell, String allReduce, int ranks) {
    JsonObject shape = shape(cell);
    shape.addProperty("name", "decode");
    shape.addProperty("ranks", ranks);
    shape.addProperty("all_reduce", allReduce);
    return ResultLine.of("decode", NVRAR, shape);
  }

  private static List<Double> slowest(List<double[]> ranks) {
    double[] slowest = ranks.get(0).clone();
    for (double[] rank : ranks) {
      Arrays.setAll(slowest, i -> Math.max(slowest[i], rank[i]));
    }
    return DoubleStream.of(slowest).boxed().toList();
  }

  private static String problem(List<RankTimes> ranks) {
    for (RankTimes rank : ranks) {
      if (!rank.problem().isEmpty()) {
        return rank.problem();
      }
      if (!Arrays.equals(rank.tokens(), ranks.get(0).tokens())) {
        return "the ranks have different tokens";
      }
    }
    return "";
  }
}
