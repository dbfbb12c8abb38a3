package io.nvrar.examples.llama;

import io.nvrar.examples.llama.engine.cuda.Prefill;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** How prompts are to pass through a model on GPUs. */
final class PrefillOptions {
  @Option(
      names = "--prefill",
      split = ",",
      paramLabel = "HOW",
      defaultValue = "auto",
      description =
          "How prompts pass through a model on GPUs: cublaslt, in chunks whose products are NVIDIA's;"
              + " slices, by the products of decode steps; auto, which is cublaslt where it can be"
              + " (default: ${DEFAULT-VALUE}).")
  private List<String> names = List.of();

  @Option(
      names = "--prefill-chunk",
      paramLabel = "N",
      defaultValue = "" + Prefill.DEFAULT_CHUNK,
      description = "Tokens of a chunk (default: ${DEFAULT-VALUE}).")
  private int chunk;

  @Option(
      names = "--cublaslt",
      paramLabel = "FILE",
      description =
          "cuBLASLt's library (default: the one that the loader finds, else that of python3's"
              + " packages).")
  private @Nullable String library;

  /** Checks them. */
  void check() {
    List<Prefill.Choice> choices = choices();
    if (choices.stream().distinct().count() < choices.size()) {
      throw new ModelException("--prefill has one of its values twice.");
    }
    if (chunk < 1 || chunk > Prefill.MAX_CHUNK) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "--prefill-chunk is %d, and must be 1 to %d.",
              chunk,
              Prefill.MAX_CHUNK));
    }
    if (library != null && choices.equals(List.of(Prefill.Choice.SLICES))) {
      throw new ModelException("--cublaslt is not for --prefill slices.");
    }
  }

  /** All that are to be compared, in order. */
  List<Prefill.Choice> choices() {
    return names.stream().map(name -> Prefill.Choice.of("--prefill", name)).toList();
  }

  /** The only one. */
  Prefill one() {
    if (names.size() != 1) {
      throw new ModelException("--prefill takes one value here.");
    }
    return of(choices().get(0));
  }

  /** One with which an engine can do all that are to be compared. */
  Prefill most() {
    List<Prefill.Choice> choices = choices();
    for (Prefill.Choice choice : List.of(Prefill.Choice.CUBLASLT, Prefill.Choice.AUTO)) {
      if (choices.contains(choice)) {
        return of(choice);
      }
    }
    return of(Prefill.Choice.SLICES);
  }

  private Prefill of(Prefill.Choice choice) {
    return Prefill.of(choice, library, chunk);
  }
}
