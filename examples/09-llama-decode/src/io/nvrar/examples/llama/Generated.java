package io.nvrar.examples.llama;

import io.nvrar.examples.llama.text.StreamingDetokenizer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What has been generated for one prompt. */
final class Generated {
  private final @Nullable StreamingDetokenizer detokenizer;
  private final int maxTokens;
  private final List<Integer> endTokens;
  private final List<Integer> tokens = new ArrayList<>();
  private final StringBuilder text = new StringBuilder();

  /**
   * For one prompt.
   *
   * @param detokenizer none where no text is wanted
   * @param maxTokens how many tokens end it
   * @param endTokens which tokens end it
   */
  Generated(@Nullable StreamingDetokenizer detokenizer, int maxTokens, List<Integer> endTokens) {
    this.detokenizer = detokenizer;
    this.maxTokens = maxTokens;
    this.endTokens = endTokens;
  }

  /** Takes a token and returns the text that is new, all that is left if this was the last. */
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

  /** In the words of other servers: an end token, or the limit. */
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
