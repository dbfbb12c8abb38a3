package io.nvrar.examples.llama;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;

/**
 * Prints several outputs that grow at once one after the other: the first that is unfinished as it
 * grows, those behind it when their turn has come.
 */
final class StreamedOutput {
  private final PrintWriter out;
  private final List<StringBuilder> waiting = new ArrayList<>();
  private final List<Boolean> finished = new ArrayList<>();
  private int current;

  /**
   * With what each output begins with, which is shown with the first text after it: on a terminal
   * nothing stands there half done while messages about the start may still come.
   */
  StreamedOutput(PrintWriter out, List<String> beginnings) {
    this.out = out;
    for (String beginning : beginnings) {
      waiting.add(new StringBuilder(beginning));
      finished.add(false);
    }
  }

  void add(int output, String text) {
    waiting.get(output).append(text);
    print();
  }

  void finish(int output) {
    waiting.get(output).append(System.lineSeparator());
    finished.set(output, true);
    print();
  }

  private void print() {
    while (current < waiting.size()) {
      StringBuilder text = waiting.get(current);
      out.append(text);
      text.setLength(0);
      if (!finished.get(current)) {
        break;
      }
      current++;
    }
    out.flush();
  }
}
