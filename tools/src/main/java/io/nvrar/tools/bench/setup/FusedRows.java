package io.nvrar.tools.bench.setup;

import io.nvrar.AllReduceFusion.Form;
import java.util.List;
import java.util.Locale;

/**
 * The fused all-reduces of a run: what they do with their sums, and their sizes.
 *
 * @param hidden the elements of a row
 * @param rows numbers of rows, each of which is a size
 */
public record FusedRows(Form form, int hidden, List<Integer> rows) {
  public FusedRows {
    rows = List.copyOf(rows);
  }

  /** The name in place of a collective's, as in {@code nvrar_bench}. */
  public String name() {
    return String.format(Locale.ROOT, "fused-%s-%d", OptionNames.of(form), hidden);
  }

  boolean normalises() {
    return form == Form.RMS_NORM || form == Form.RMS_FOLD;
  }
}
