package io.nvrar.examples.llama.bench;

import java.io.IOException;
import java.util.List;

/** Measures cells one after another, so that what is finished is kept if a later one fails. */
public final class CellByCell {
  private final String implementation;
  private final boolean goesOn;
  private final Keeper keeper;

  /** Measures a cell. */
  public interface Measurement {
    /** Returns its rows. */
    List<BenchRow> of(BenchCell cell) throws IOException, InterruptedException;
  }

  /** Keeps what there is. */
  public interface Keeper {
    /** Hears the report after each cell. */
    void keep(BenchReport report) throws IOException;
  }

  /**
   * Measures nothing yet.
   *
   * @param implementation whose steps they are
   * @param goesOn whether cells can still be measured once one has failed
   * @param keeper hears the report after each cell
   */
  public CellByCell(String implementation, boolean goesOn, Keeper keeper) {
    this.implementation = implementation;
    this.goesOn = goesOn;
    this.keeper = keeper;
  }

  /**
   * Adds rows, or failures, of all cells to a report.
   *
   * @throws IOException if a report cannot be kept
   */
  public BenchReport measure(BenchReport begun, List<BenchCell> cells, Measurement measurement)
      throws IOException, InterruptedException {
    BenchReport report = begun;
    boolean failed = false;
    for (BenchCell cell : cells) {
      if (failed && !goesOn) {
        report = report.with(failure(cell, "a cell before it has failed"));
      } else {
        try {
          report = report.with(measurement.of(cell));
        } catch (IOException | RuntimeException e) {
          failed = true;
          report = report.with(failure(cell, String.valueOf(e.getMessage())));
        }
      }
      keeper.keep(report);
    }
    return report;
  }

  private BenchFailure failure(BenchCell cell, String problem) {
    return new BenchFailure(implementation, cell.batch(), cell.context(), problem);
  }
}
