package io.nvrar.examples.llama.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.tools.bench.measure.PythonTorch;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.util.concurrent.TimeUnit;

/** Where NCCL is. */
public final class NcclLibrary {
  /** What the loader finds if it is installed for all. */
  static final String INSTALLED = "libnccl.so.2";

  private static final int LIMIT_SECONDS = 20;

  private static final String QUESTION =
      "import os, nvidia.nccl; "
          + "files = [os.path.join(path, 'lib', 'libnccl.so.2') for path in nvidia.nccl.__path__]; "
          + "print(next(file for file in files if os.path.exists(file)), end='')";

  private NcclLibrary() {}

  /** The file among python3's packages, from where PyTorch takes it; else {@link #INSTALLED}. */
  public static String find() throws InterruptedException {
    return find(PythonTorch.PYTHON);
  }

  static String find(String python) throws InterruptedException {
    Process process;
    try {
      process = new ProcessBuilder(python, "-c", QUESTION).redirectError(Redirect.DISCARD).start();
    } catch (IOException e) {
      return INSTALLED;
    }
    try {
      // The answer is shorter than a pipe.
      if (!process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS) || process.exitValue() != 0) {
        return INSTALLED;
      }
      return new String(process.getInputStream().readAllBytes(), UTF_8);
    } catch (IOException e) {
      return INSTALLED;
    } finally {
      process.destroyForcibly();
    }
  }
}
