package io.nvrar.examples.llama.engine.cuda.driver;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.examples.llama.weights.ModelException;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Finds a cuBLASLt that works on a GPU: that of a user's file, else the one that the loader finds,
 * else one of python3's packages, where PyTorch has brought it.
 */
public final class CublasLtSearch {
  private static final List<String> INSTALLED = List.of("libcublasLt.so.13", "libcublasLt.so.12");
  private static final String PYTHON = "python3";
  private static final int LIMIT_SECONDS = 20;

  // The wheels of CUDA 12 have it in nvidia/cublas, those of CUDA 13 in nvidia/cu13. Newest first.
  private static final String QUESTION =
      "import glob, os, nvidia; "
          + "print('\\n'.join(sorted((file for path in nvidia.__path__ for file in "
          + "glob.glob(os.path.join(path, '*', 'lib', 'libcublasLt.so.1[0-9]'))), "
          + "key=os.path.basename, reverse=True)))";

  private CublasLtSearch() {}

  /**
   * What was found.
   *
   * @param library null if nothing was
   * @param problem why; without a full stop
   */
  public record Result(@Nullable CublasLt library, String problem) {}

  /**
   * Searches.
   *
   * @param named a user's file, which is the only one then; null for none
   */
  public static Result on(Gpu gpu, @Nullable String named) {
    List<String> problems = new ArrayList<>();
    List<String> first = named == null ? INSTALLED : List.of(named);
    CublasLt library = firstUsable(gpu, first, problems);
    if (library == null && named == null) {
      library = firstUsable(gpu, ofPackages(PYTHON), problems);
    }
    return new Result(
        library, library == null ? "no cuBLASLt can be used: " + String.join("; ", problems) : "");
  }

  private static @Nullable CublasLt firstUsable(
      Gpu gpu, List<String> files, List<String> problems) {
    for (String file : files) {
      try {
        CublasLt library = CublasLt.open(file);
        gpu.enter();
        // One that is too new for the driver says so here.
        library.destroy(library.create());
        return library;
      } catch (ModelException | IllegalStateException e) {
        problems.add(String.valueOf(e.getMessage()));
      }
    }
    return null;
  }

  /** The files among the packages of a Python. */
  static List<String> ofPackages(String python) {
    Process process;
    try {
      process = new ProcessBuilder(python, "-c", QUESTION).redirectError(Redirect.DISCARD).start();
    } catch (IOException e) {
      return List.of();
    }
    try {
      // The answer is shorter than a pipe.
      if (!process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS) || process.exitValue() != 0) {
        return List.of();
      }
      return new String(process.getInputStream().readAllBytes(), UTF_8)
          .lines()
          .filter(line -> !line.isBlank())
          .toList();
    } catch (IOException e) {
      return List.of();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while cuBLASLt is searched for", e);
    } finally {
      process.destroyForcibly();
    }
  }
}
