package io.nvrar.examples.llama.text;

import java.util.Arrays;
import java.util.function.Function;

/**
 * Turns the tokens of one sequence to text while they arrive, and never shows half a character: a
 * token may end within the bytes of one, and then its text waits for the next.
 *
 * <p>A token's text may also depend on the token before it (some tokenizers drop a leading space),
 * so a few earlier tokens are decoded again with the new ones and their text is cut off.
 */
public final class StreamingDetokenizer {
  private static final char REPLACEMENT = '\ufffd';

  // A character has at most four bytes, and a byte-level tokenizer may give a token to each.
  // What is undecided for longer is not half a character but no character at all.
  private static final int MAX_PENDING = 8;

  // Enough for a character of the prompt that ends in several tokens.
  private static final int CONTEXT = 5;

  private final Function<int[], String> decoder;
  private int[] tokens;
  private int count;
  private int contextBegin;
  private int shown;

  /**
   * With a function that decodes a run of tokens.
   *
   * @param decoder text of tokens, with U+FFFD for what is no character
   * @param prompt what the sequence begins with; its text is not returned
   */
  public StreamingDetokenizer(Function<int[], String> decoder, int[] prompt) {
    this.decoder = decoder;
    int context = Math.min(prompt.length, CONTEXT);
    tokens = Arrays.copyOfRange(prompt, prompt.length - context, prompt.length + 16);
    count = context;
    shown = context;
  }

  /** Takes the next token; returns the text that is now certain, often empty. */
  public String add(int token) {
    if (count == tokens.length) {
      tokens = Arrays.copyOf(tokens, 2 * count);
    }
    tokens[count++] = token;
    String before = decode(shown);
    String now = decode(count);
    boolean complete = now.isEmpty() || now.charAt(now.length() - 1) != REPLACEMENT;
    return complete || count - shown >= MAX_PENDING ? show(before, now) : "";
  }

  /** Returns what is left when no token follows, replacement characters included. */
  public String finish() {
    return shown == count ? "" : show(decode(shown), decode(count));
  }

  private String show(String before, String now) {
    contextBegin = shown;
    shown = count;
    return now.length() > before.length() ? now.substring(before.length()) : "";
  }

  private String decode(int end) {
    return end == contextBegin ? "" : decoder.apply(Arrays.copyOfRange(tokens, contextBegin, end));
  }
}
