package io.nvrar.it.soak.worker;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A message between the controller and a worker: one line of words, of which the first is the kind
 * of message.
 */
public record Line(List<String> words) {
  public static Line of(Object... words) {
    return new Line(Arrays.stream(words).map(String::valueOf).toList());
  }

  public Line with(List<?> more) {
    return of(Stream.concat(words.stream(), more.stream()).toArray());
  }

  public static Line parse(String text) {
    return new Line(
        Arrays.stream(text.split(" ", -1)).map(word -> URLDecoder.decode(word, UTF_8)).toList());
  }

  public String kind() {
    return words.get(0);
  }

  /** The words from {@code index} on. */
  public List<String> from(int index) {
    return words.subList(index, words.size());
  }

  public String word(int index) {
    return words.get(index);
  }

  int number(int index) {
    return Integer.parseInt(words.get(index));
  }

  @Override
  public String toString() {
    return words.stream()
        .map(word -> URLEncoder.encode(word, UTF_8))
        .collect(Collectors.joining(" "));
  }
}
