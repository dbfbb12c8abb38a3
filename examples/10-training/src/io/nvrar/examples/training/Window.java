package io.nvrar.examples.training;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** One evaluation window of a held-out block; windows overlap by half. */
final class Window {
  private final short[] characters;
  private final int from;

  private Window(short[] characters, int from) {
    this.characters = characters;
    this.from = from;
  }

  /** A context and one character more; not copied. */
  short[] characters() {
    return characters;
  }

  /** The first place whose prediction counts: those before it were counted by another window. */
  int from() {
    return from;
  }

  /** Covers all characters of some blocks but the first of each, once. Windows overlap by half. */
  static List<Window> of(List<short[]> blocks, int context) {
    List<Window> windows = new ArrayList<>();
    for (short[] block : blocks) {
      int last = block.length - 1 - context;
      int counted = 0; // predictions of this block
      for (int start = 0; counted < block.length - 1; start += context / 2) {
        int begin = Math.min(start, last);
        short[] characters = Arrays.copyOfRange(block, begin, begin + context + 1);
        windows.add(new Window(characters, counted - begin));
        counted = begin + context;
      }
    }
    return windows;
  }
}
