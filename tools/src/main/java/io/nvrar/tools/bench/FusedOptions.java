package io.nvrar.tools.bench;

import io.nvrar.AllReduceFusion;
import io.nvrar.DataType;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.OptionNames;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** The fused all-reduces that {@code nvrar bench} measures instead of collectives. */
final class FusedOptions {
  private static final int HIDDEN = 8192;
  private static final int HIDDEN_MULTIPLE = 8;
  private static final List<Integer> ROWS = List.of(1, 2, 4, 8, 16, 32);
  private static final int MOST_ROWS = 4096;

  @Option(
      names = "--fused",
      arity = "0..1",
      defaultValue = "0",
      fallbackValue = "1",
      paramLabel = "0|1",
      description =
          "On GPUs: fused all-reduces of rows instead, beside an all-reduce with a kernel behind it"
              + " for the rest (c++-apart); --min, --max, --factor and"
              + " --ranks-per-node are not for them.")
  int fused;

  @Option(
      names = "--form",
      converter = OptionNames.Forms.class,
      paramLabel = "NAME",
      description =
          "What they do with their sums: residual, bias, rms-norm, rms-fold (default: rms-norm).")
  AllReduceFusion.@Nullable Form form;

  @Option(names = "--hidden", paramLabel = "N", description = "Elements of a row (default: 8192).")
  @Nullable Integer hidden;

  @Option(
      names = "--rows",
      split = ",",
      paramLabel = "N",
      description = "Numbers of rows, each a size (default: 1,2,4,8,16,32).")
  @Nullable List<Integer> rows;

  boolean isWanted() {
    return fused == 1;
  }

  /** Null if they are not wanted. */
  @Nullable FusedRows wanted() {
    return isWanted() ? fusedRows() : null;
  }

  private FusedRows fusedRows() {
    return new FusedRows(
        form == null ? AllReduceFusion.Form.RMS_NORM : form,
        hidden == null ? HIDDEN : hidden,
        rows == null ? ROWS : rows);
  }

  /**
   * Checks the options, and that the others fit to them.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check(boolean onGpu, CallOptions call, SizeOptions sizes, RankOptions ranks) {
    Limits.require(fused, "--fused", 0, 1);
    if (fused == 0) {
      if (form != null || hidden != null || rows != null) {
        throw new IllegalArgumentException("--form, --hidden and --rows are for --fused");
      }
      return;
    }
    if (!onGpu) {
      throw new IllegalArgumentException("--fused is for --backend cuda");
    }
    if (sizes.areGiven()) {
      throw new IllegalArgumentException(
          "--min, --max and --factor are not for --fused; --rows and --hidden say the sizes");
    }
    if (ranks.ranksPerNode != 0 && ranks.links == 0) {
      throw new IllegalArgumentException(
          "--ranks-per-node is not for --fused, which needs all ranks on GPUs in one node");
    }
    if (!call.isPlainAllReduce()) {
      throw new IllegalArgumentException("--fused is for --collective all-reduce and --op sum");
    }
    DataType type = call.type(onGpu);
    if (!type.isFloat() || type == DataType.FLOAT64) {
      throw new IllegalArgumentException(
          "--fused is for bfloat16, float16 and float32, --type is " + OptionNames.of(type));
    }
    checkRows(fusedRows());
  }

  private static void checkRows(FusedRows wanted) {
    Limits.require(wanted.hidden(), "--hidden", HIDDEN_MULTIPLE, AllReduceFusion.MAX_HIDDEN);
    if (wanted.hidden() % HIDDEN_MULTIPLE != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "--hidden is %d, must be a multiple of %d",
              wanted.hidden(),
              HIDDEN_MULTIPLE));
    }
    Set<Integer> different = new HashSet<>();
    for (int count : wanted.rows()) {
      Limits.require(count, "--rows", 1, MOST_ROWS);
      if (!different.add(count)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "--rows has %d twice, and each number of rows is measured once",
                count));
      }
    }
  }
}
