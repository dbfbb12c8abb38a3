package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.examples.llama.engine.cuda.kernels.GemmPlan;
import io.nvrar.examples.llama.weights.ModelException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * How prompts are to pass through the model. A class and not a record: Ray's serializer cannot read
 * records back.
 */
public final class Prefill implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Rows of a chunk unless the user wants others. */
  public static final int DEFAULT_CHUNK = 1024;

  /** Enough for any GPU, and few enough for a launch. */
  public static final int MAX_CHUNK = 16_384;

  /** Most rows of which our own products take less time than cuBLASLt's. */
  private static final int SLICE = GemmPlan.MAX_BATCH;

  private final Choice choice;
  private final @Nullable String library;
  private final int chunk;
  private final int leastRows;

  /** By what the large products of a prompt are computed. */
  public enum Choice {
    /** By cuBLASLt where it can be opened and takes the model, else in slices. */
    AUTO,
    /** By cuBLASLt; it is an error if that cannot be. */
    CUBLASLT,
    /** By the products of decode steps, up to 32 rows at a time. */
    SLICES;

    /**
     * By the name that options have.
     *
     * @throws ModelException if there is no such
     */
    public static Choice of(String option, String name) {
      for (Choice choice : values()) {
        if (choice.label().equals(name)) {
          return choice;
        }
      }
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s is %s, and must be one of %s.",
              option,
              name,
              Arrays.stream(values()).map(Choice::label).collect(Collectors.joining(", "))));
    }

    /** As options have it. */
    public String label() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private Prefill(Choice choice, @Nullable String library, int chunk, int leastRows) {
    this.choice = choice;
    this.library = library;
    this.chunk = chunk;
    this.leastRows = leastRows;
  }

  /**
   * A choice.
   *
   * @param library the file of cuBLASLt; null to be searched for
   * @param chunk how many rows pass through a layer together, 1 to {@link #MAX_CHUNK}
   */
  public static Prefill of(Choice choice, @Nullable String library, int chunk) {
    if (chunk < 1 || chunk > MAX_CHUNK) {
      throw new IllegalArgumentException("a chunk of " + chunk + " rows");
    }
    return new Prefill(choice, library, chunk, SLICE + 1);
  }

  /** What is chosen if nothing was said. */
  public static Prefill automatic() {
    return of(Choice.AUTO, null, DEFAULT_CHUNK);
  }

  /** The same with chunks for steps of fewer rows, too. */
  Prefill from(int rows) {
    return new Prefill(choice, library, chunk, rows);
  }

  Choice choice() {
    return choice;
  }

  @Nullable String library() {
    return library;
  }

  /** Most rows of a chunk. */
  int chunk() {
    return chunk;
  }

  /** Least rows of a chunk: steps of fewer have slices. */
  int leastRows() {
    return leastRows;
  }
}
