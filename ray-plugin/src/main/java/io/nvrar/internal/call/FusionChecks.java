package io.nvrar.internal.call;

import io.nvrar.AllReduceFusion;
import io.nvrar.DeviceBuffer;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Checks the buffers of a fused all-reduce against each other and the group. What an {@link
 * AllReduceFusion} can know of its own buffers it has checked when it was made. Allocates nothing
 * unless a check fails.
 */
final class FusionChecks {
  private static final int ALIGNMENT = 16;

  private final DeviceChecks device;

  FusionChecks(DeviceChecks device) {
    this.device = device;
  }

  void check(@Nullable DeviceBuffer input, @Nullable AllReduceFusion fusion) {
    if (fusion == null) {
      throw new IllegalArgumentException("fusion is null, allReduce needs an AllReduceFusion");
    }
    DeviceBuffer source = device.checkBuffer("input", input);
    DeviceBuffer output = fusion.output();
    if (source.dataType() != output.dataType()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "input holds %s, output holds %s",
              source.dataType(),
              output.dataType()));
    }
    if (source.count() != output.count()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "input holds %d elements, output holds %d",
              source.count(),
              output.count()));
    }
    String weightName = fusion.form() == AllReduceFusion.Form.BIAS ? "bias" : "weight";
    boolean hasData = output.count() > 0;
    checkPlace("input", source, hasData);
    checkPlace("output", output, hasData);
    checkPlace("residual", fusion.residualIn(), hasData);
    checkPlace("residualOut", fusion.residualOut(), hasData);
    checkPlace(weightName, fusion.weight(), hasData);
    checkPlace("squares", fusion.squares(), hasData);
    checkWritten("output", output, source, fusion, weightName);
    checkWritten("residualOut", fusion.residualOut(), source, fusion, weightName);
    checkApart("output", output, "residualOut", fusion.residualOut(), false);
    checkSquares(fusion, source);
  }

  /**
   * Checks where a buffer is that the form has.
   *
   * @param isUsed whether the call has data
   */
  private void checkPlace(String name, @Nullable DeviceBuffer buffer, boolean isUsed) {
    if (buffer == null) {
      return;
    }
    long address = device.checkBuffer(name, buffer).address();
    if (isUsed && address % ALIGNMENT != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s begins at 0x%x, a fused all-reduce needs addresses that are multiples of %d",
              name,
              address,
              ALIGNMENT));
    }
  }

  /** Checks rows that are written against what is read. */
  private static void checkWritten(
      String name,
      @Nullable DeviceBuffer written,
      DeviceBuffer input,
      AllReduceFusion fusion,
      String weightName) {
    checkApart("input", input, name, written, true);
    checkApart("residual", fusion.residualIn(), name, written, true);
    checkApart(weightName, fusion.weight(), name, written, false);
  }

  private static void checkSquares(AllReduceFusion fusion, DeviceBuffer input) {
    DeviceBuffer squares = fusion.squares();
    checkApart("input", input, "squares", squares, false);
    checkApart("residual", fusion.residualIn(), "squares", squares, false);
    checkApart("weight", fusion.weight(), "squares", squares, false);
    checkApart("residualOut", fusion.residualOut(), "squares", squares, false);
    checkApart("output", fusion.output(), "squares", squares, false);
  }

  private static void checkApart(
      String nameA,
      @Nullable DeviceBuffer a,
      String nameB,
      @Nullable DeviceBuffer b,
      boolean mayBeSame) {
    if (a != null && b != null) {
      DeviceChecks.checkApart(nameA, a, nameB, b, mayBeSame);
    }
  }
}
