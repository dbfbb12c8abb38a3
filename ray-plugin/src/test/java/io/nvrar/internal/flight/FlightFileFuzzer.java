package io.nvrar.internal.flight;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/** Flight records, and what is found in them. */
public final class FlightFileFuzzer {
  /** A line of a file, Gson's tree of it, and an exception with its stack. */
  private static final long MAX_BYTES = 2L << 20;

  private FlightFileFuzzer() {}

  /** The content of a file. */
  public static void fuzzerTestOneInput(byte[] data) {
    withinMemory(MAX_BYTES + 64L * data.length, () -> read(data));
  }

  private static void read(byte[] data) throws IOException {
    FlightRecord record;
    try {
      record =
          FlightJson.read(
              new InputStreamReader(new ByteArrayInputStream(data), StandardCharsets.UTF_8));
    } catch (IllegalArgumentException e) {
      sentence(e);
      return;
    }
    PostMortem.Fault fault = PostMortem.of(record);
    holds(!fault.sentence().isBlank(), "a finding without a word");
    holds(
        fault.ranks().stream().allMatch(r -> r >= 0 && r < record.header().worldSize()),
        "a rank at fault that is none");
    FlightJson.write(record, new StringWriter());
  }
}
