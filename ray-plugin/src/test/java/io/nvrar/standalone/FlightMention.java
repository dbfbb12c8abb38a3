package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.nio.file.Path;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** What the end of a failure's message says of the group's flight record. */
public final class FlightMention {
  private static final Pattern MENTION =
      Pattern.compile("; flight record: (?<file>.+?\\.jsonl)(?<pending> \\(being written\\))?$");

  /** How long after the failure an exception waits for the file. */
  private static final Duration WAIT = Duration.ofMillis(250);

  private static final Duration APPEARS = Duration.ofSeconds(20);

  private FlightMention() {}

  /**
   * The file that a message names, once it is there: at once, unless the message says otherwise.
   */
  public static Path file(@Nullable String message) {
    Matcher mention = find(message);
    Path file = Path.of(mention.group("file"));
    if (mention.group("pending") == null) {
      assertThat(file).exists();
      return file;
    }
    await().atMost(APPEARS).untilAsserted(() -> assertThat(file).exists());
    return file;
  }

  /** That a message was only built when the file was there, or could no longer be waited for. */
  public static void assertAwaited(@Nullable String message, long failureNanos) {
    long nanos = System.nanoTime() - failureNanos;
    if (find(message).group("pending") != null) {
      assertThat(Duration.ofNanos(nanos)).as(message).isGreaterThanOrEqualTo(WAIT);
    }
  }

  private static Matcher find(@Nullable String message) {
    Matcher mention = MENTION.matcher(String.valueOf(message));
    assertThat(mention.find()).as(message).isTrue();
    return mention;
  }
}
