package io.nvrar.examples.llama;

import io.nvrar.examples.llama.text.StreamingDetokenizer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The generated text and tokens of one prompt. */
final class Generated {
  private final @Nullable StreamingDetokenizer detokenizer;
  private final int maxTokens;
  private final List<Integer> endTokens;
  private final List<Integer> tokens = new ArrayList<>();
  private final StringBuilder text = new StringBuilder();

  /**
   * For one prompt.
   *
   * @param detokenizer null if no text is wanted
   * @param maxTokens the number of tokens after which it ends
   * @param endTokens the tokens that end it
   */
  Generated(@Nullable StreamingDetokenizer detokenizer, int maxTokens, List<Integer> endTokens) {
    this.detokenizer = detokenizer;
    this.maxTokens = maxTokens;
    this.endTokens = endTokens;
  }

  /** Adds a token and returns the new text; after the last token, all remaining text. */
  String add(int token) {
    tokens.add(token);
    if (detokenizer == null) {
      return "";
    }
    String piece = detokenizer.add(token) + (isFinished() ? detokenizer.finish() : "");
    text.append(piece);
    return piece;
  }

  boolean isFinished() {
    return tokens.size() == maxTokens || stopped();
  }

  /** Why it ended (an end token, or the limit), in the terms of other inference servers. */
  String finishReason() {
    return stopped() ? "stop" : "length";
  }

  List<Integer> tokens() {
    return tokens;
  }

  @Nullable String text() {
    return detokenizer == null ? null : text.toString();
  }

  private boolean stopped() {
    return !tokens.isEmpty() && endTokens.contains(tokens.get(tokens.size() - 1));
  }
}
