package io.nvrar.examples.llama.bench;

import java.util.Locale;

/**
 * What could not be measured.
 *
 * @param implementation nvrar, or who else was to make the step
 * @param batch sequences
 * @param context positions that the last step of a block was to attend to
 * @param problem why
 */
public record BenchFailure(String implementation, int batch, int context, String problem) {

  /** As a sentence. */
  public String sentence() {
    return String.format(
        Locale.ROOT,
        "At batch %d and context %d %s was not measured: %s%s",
        batch,
        context,
        implementation,
        problem,
        problem.endsWith(".") ? "" : ".");
  }
}
