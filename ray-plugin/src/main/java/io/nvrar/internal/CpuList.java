package io.nvrar.internal;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A set of cores by Linux's numbers, written as Linux writes it: {@code 0-3,8,10-11}, and nothing
 * for none. Immutable.
 */
public final class CpuList {
  /** More than any kernel is built for; what names a core beyond it is no list of cores. */
  private static final int MAX_CORES = 1 << 16;

  /** Enough of a wrong text to recognise it by. */
  private static final int SHOWN_CHARS = 40;

  private static final Pattern RANGE = Pattern.compile("([0-9]{1,5})(?:-([0-9]{1,5}))?");

  private final BitSet cores;

  private CpuList(BitSet cores) {
    this.cores = cores;
  }

  /**
   * Reads a list, with or without the line end that Linux's files have.
   *
   * @throws IllegalArgumentException if it is none
   */
  public static CpuList parse(String text) {
    BitSet cores = new BitSet();
    String list = text.strip();
    if (!list.isEmpty()) {
      for (String range : list.split(",", -1)) {
        Matcher matcher = RANGE.matcher(range);
        if (!matcher.matches()) {
          throw wrong(text);
        }
        int first = Integer.parseInt(matcher.group(1));
        int last = matcher.group(2) == null ? first : Integer.parseInt(matcher.group(2));
        if (last < first || last >= MAX_CORES) {
          throw wrong(text);
        }
        cores.set(first, last + 1);
      }
    }
    return new CpuList(cores);
  }

  private static IllegalArgumentException wrong(String text) {
    return new IllegalArgumentException(
        String.format(
            Locale.ROOT,
            "a list of cores is '%s', must be numbers below %d and ascending ranges of them, such as 0-3,8",
            Printable.of(text.strip(), SHOWN_CHARS),
            MAX_CORES));
  }

  /** The cores of a mask in which bit {@code i} of byte {@code j} is core {@code 8 * j + i}. */
  public static CpuList ofMask(byte[] mask) {
    return new CpuList(BitSet.valueOf(mask));
  }

  /** The mask of {@link #ofMask}, as long as its last core needs. */
  public byte[] toMask() {
    return cores.toByteArray();
  }

  /** The cores that are in both. */
  public CpuList and(CpuList other) {
    BitSet both = (BitSet) cores.clone();
    both.and(other.cores);
    return new CpuList(both);
  }

  public boolean isEmpty() {
    return cores.isEmpty();
  }

  /** How many cores there are. */
  public int size() {
    return cores.cardinality();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CpuList list && cores.equals(list.cores);
  }

  @Override
  public int hashCode() {
    return cores.hashCode();
  }

  /** Such as {@code 0-3,8}. */
  @Override
  public String toString() {
    List<String> ranges = new ArrayList<>();
    int first = cores.nextSetBit(0);
    while (first >= 0) {
      int last = cores.nextClearBit(first) - 1;
      ranges.add(first == last ? Integer.toString(first) : first + "-" + last);
      first = cores.nextSetBit(last + 1);
    }
    return String.join(",", ranges);
  }
}
