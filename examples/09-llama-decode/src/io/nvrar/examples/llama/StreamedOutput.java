package io.nvrar.examples.llama;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;

/**
 * Prints several concurrently growing outputs one after the other: the first unfinished one as it
 * grows, later ones when it is their turn.
 */
final class StreamedOutput {
  private final PrintWriter out;
  private final List<StringBuilder> waiting = new ArrayList<>();
  private final List<Boolean> finished = new ArrayList<>();
  private int current;
  private boolean isLineOpen;

  /**
   * Takes the beginning of each output, which is printed together with the first text after it, so
   * that no partial line is on the terminal while messages about the start may still come.
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

  /** Ends a line that has begun, so that a message about a failure gets a line of its own. */
  void breakOff() {
    if (isLineOpen) {
      isLineOpen = false;
      out.println();
      out.flush();
    }
  }

  private void print() {
    while (current < waiting.size()) {
      StringBuilder text = waiting.get(current);
      out.append(text);
      if (text.length() > 0) {
        isLineOpen = text.charAt(text.length() - 1) != '\n';
      }
      text.setLength(0);
      if (!finished.get(current)) {
        break;
      }
      current++;
    }
    out.flush();
  }
}
