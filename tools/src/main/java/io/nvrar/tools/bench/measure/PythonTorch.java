package io.nvrar.tools.bench.measure;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.util.concurrent.TimeUnit;

/** Whether python3 has PyTorch with CUDA. Checked only once, because it takes seconds. */
public final class PythonTorch {
  /** The interpreter that is asked, and used. */
  public static final String PYTHON = "python3";

  private static final int LIMIT_SECONDS = 60;

  private PythonTorch() {}

  /** Why it cannot be used; empty if it can. */
  public static String problem() {
    return Answer.PROBLEM;
  }

  static String problem(String python) {
    try {
      ProcessBuilder builder =
          new ProcessBuilder(
                  python, "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())")
              .redirectOutput(Redirect.DISCARD)
              .redirectError(Redirect.DISCARD);
      NoMulticast.in(builder);
      Process process = builder.start();
      boolean ended = process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS);
      process.destroyForcibly();
      return ended && process.exitValue() == 0 ? "" : "python3 has no PyTorch with CUDA here";
    } catch (IOException e) {
      return "there is no python3 here";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "python3 was interrupted while it looked for PyTorch";
    }
  }

  private static final class Answer {
    static final String PROBLEM = problem(PYTHON);

    private Answer() {}
  }
}
