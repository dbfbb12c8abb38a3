package io.nvrar.internal;

import java.util.regex.Pattern;

/** Makes untrusted text safe for a message, a log or a terminal. */
public final class Printable {
  private static final Pattern CONTROL = Pattern.compile("[\\p{Cc}\\p{Cs}]");

  private Printable() {}

  /**
   * {@code text} with a question mark for each control character, line ends included, and for each
   * half of a character that no encoding could write.
   */
  public static String of(String text) {
    return CONTROL.matcher(text).replaceAll("?");
  }

  /** {@link #of(String)} of at most {@code maxChars} characters, and "..." if there are more. */
  public static String of(String text, int maxChars) {
    return of(text.length() <= maxChars ? text : text.substring(0, maxChars) + "...");
  }
}
