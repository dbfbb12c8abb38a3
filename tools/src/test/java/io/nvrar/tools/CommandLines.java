package io.nvrar.tools;

import java.io.PrintWriter;
import java.io.StringWriter;

/** Runs commands in this process. */
public final class CommandLines {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  /** Runs one and returns its exit code. */
  public int run(String... args) {
    out.getBuffer().setLength(0);
    err.getBuffer().setLength(0);
    return Main.run(new PrintWriter(out, true), new PrintWriter(err, true), args);
  }

  /** What the last one printed. */
  public String out() {
    return out.toString();
  }

  /** What it printed on standard error. */
  public String err() {
    return err.toString();
  }
}
