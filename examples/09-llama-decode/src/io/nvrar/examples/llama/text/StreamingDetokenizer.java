package io.nvrar.examples.llama.text;

import java.util.Arrays;
import java.util.function.Function;

/**
 * Turns the tokens of one sequence to text while they arrive, and never shows half a character: a
 * token may end within the bytes of one, and then its text waits for the next.
 *
 * <p>A token's text may also depend on those before it: some tokenizers drop the first space of a
 * text, and some make U+FFFD of every byte of a run that is not whole characters. So earlier tokens
 * are decoded again with the new ones and their text is cut off: at first the whole prompt, then
 * the tokens of the text that was shown last, which begin and end with a character.
 */
public final class StreamingDetokenizer {
  private static final char REPLACEMENT = '\ufffd';

  // A character has at most four bytes, and a byte-level tokenizer may give a token to each.
  // What is undecided for longer is not half a character but no character at all.
  private static final int MAX_PENDING = 8;

  private final Function<int[], String> decoder;
  private int[] tokens;
  private int count;
  private int contextBegin;
  private int shown;
  private String context;

  /**
   * With a function that decodes a run of tokens.
   *
   * @param decoder text of tokens, with U+FFFD for what is no character
   * @param prompt what the sequence begins with; its text is not returned
   */
  public StreamingDetokenizer(Function<int[], String> decoder, int[] prompt) {
    this.decoder = decoder;
    tokens = Arrays.copyOf(prompt, prompt.length + 16);
    count = prompt.length;
    shown = prompt.length;
    context = decode(0, shown);
  }

  /** Takes the next token; returns the text that is now certain, often empty. */
  public String add(int token) {
    if (isWithoutText(token)) {
      return "";
    }
    if (count == tokens.length) {
      tokens = Arrays.copyOf(tokens, 2 * count);
    }
    tokens[count++] = token;
    String now = decode(contextBegin, count);
    boolean complete = now.isEmpty() || now.charAt(now.length() - 1) != REPLACEMENT;
    return complete || count - shown >= MAX_PENDING ? show(now) : "";
  }

  /** Returns what is left when no token follows, replacement characters included. */
  public String finish() {
    return shown == count ? "" : show(decode(contextBegin, count));
  }

  private String show(String now) {
    // Half a character can spoil a run of bytes that begins in the context: then it stands alone.
    String text = now.startsWith(context) ? now.substring(context.length()) : decode(shown, count);
    String last = decode(shown, count);
    // Behind a context without text a space would be the first again.
    contextBegin = last.isEmpty() ? contextBegin : shown;
    context = last.isEmpty() ? now : last;
    shown = count;
    return text;
  }

  // Special and unknown tokens are skipped, wherever they are. Of two spaces one is kept.
  private boolean isWithoutText(int token) {
    return decoder.apply(new int[] {token, token}).isEmpty();
  }

  private String decode(int begin, int end) {
    return end == begin ? "" : decoder.apply(Arrays.copyOfRange(tokens, begin, end));
  }
}
