package io.nvrar;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** What is logged while a test runs, read where slf4j-simple writes it. */
public final class CapturedLog implements BeforeEachCallback, AfterEachCallback {
  private final ByteArrayOutputStream log = new ByteArrayOutputStream();
  private final PrintStream standardError = System.err;

  @Override
  public void beforeEach(ExtensionContext context) {
    System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
  }

  @Override
  public void afterEach(ExtensionContext context) {
    System.setErr(standardError);
  }

  /** All of it so far. */
  public String text() {
    return log.toString(StandardCharsets.UTF_8);
  }
}
