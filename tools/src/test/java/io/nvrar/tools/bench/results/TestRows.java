package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.util.List;

/** Rows of all-reduces of which a test names what it is about. */
public final class TestRows {
  private static final Settings ON_HOST = TestSettings.onHost(4, 1024, 1 << 20, 2, 0, -1, 3);
  private static final Settings ON_GPUS = TestSettings.onGpus(4, 40, 3, 30);

  private TestRows() {}

  /** Among 4 processes of a host, with the times of the batches. */
  public static Row onHost(Implementation from, long bytes, Double... batchesUs) {
    return row(from, ON_HOST, bytes, Mode.CALLS, List.of(batchesUs));
  }

  public static Row onGpus(Implementation from, long bytes, Mode mode, Double... batchesUs) {
    return row(from, ON_GPUS, bytes, mode, List.of(batchesUs));
  }

  /** The same in place. */
  public static Row inPlace(Row row) {
    return Row.parse(row.toCsv().replace(",out,", ",in,"));
  }

  private static Row row(
      Implementation from, Settings settings, long bytes, Mode mode, List<Double> batchesUs) {
    CollectiveValues values = CollectiveValues.ofSize(settings, bytes);
    return Row.of(from, settings, values, Row.OUT_OF_PLACE, mode, batchesUs, 0);
  }
}
